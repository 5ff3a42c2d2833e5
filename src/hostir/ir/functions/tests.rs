//! Tests of the function table.
#![allow(clippy::panic, reason = "failures panic")]

use super::{ElementFunction, Function, FunctionForm, NumberForm};

fn function_arity<T>(function: ElementFunction<T>) -> usize {
    match function {
        ElementFunction::Unary(_) => 1,
        ElementFunction::Binary(_) => 2,
        ElementFunction::Ternary(_) => 3,
    }
}

/// The numbers of operands of a form's values, and its templates.
fn form_parts(form: FunctionForm) -> (Vec<usize>, Vec<&'static str>) {
    match form {
        FunctionForm::NotComputed | FunctionForm::SameAs(_) => (vec![], vec![]),
        FunctionForm::Conversion | FunctionForm::Reinterpretation => (vec![1], vec![]),
        FunctionForm::Choice => (vec![3], vec![]),
        FunctionForm::Truth { value, cuda } => (vec![function_arity(value)], vec![cuda]),
        FunctionForm::Test { cuda, .. } => (vec![1], vec![cuda]),
        FunctionForm::Comparison(form) => (vec![2], vec![form.cuda]),
        FunctionForm::Number(NumberForm { real, integer, truth, complex }) => {
            let reals = real.map(|form| (vec![function_arity(form.double), function_arity(form.float)], form.cuda));
            let integers = [integer, truth].into_iter().flatten();
            let integers = integers.map(|form| (vec![function_arity(form.value)], form.cuda));
            let (arities, texts): (Vec<_>, Vec<_>) = reals.into_iter().chain(integers).unzip();
            (arities.into_iter().chain(complex.map(|form| vec![function_arity(form)])).flatten().collect(), texts)
        }
    }
}

/// The operands that a template names; it has no other braces than known words.
fn named_operands(template: &str) -> usize {
    let words: Vec<&str> =
        template.split('{').skip(1).map(|part| part.split_once('}').map_or("", |(word, _)| word)).collect();
    assert!(words.iter().all(|word| ["a", "b", "c", "T", "f"].contains(word)), "{template}");
    assert_eq!(template.matches('}').count(), words.len(), "{template}");
    ["a", "b", "c"].iter().filter(|operand| words.contains(operand)).count()
}

#[test]
fn forms_have_as_many_operands_as_their_rows() {
    for function in Function::ALL {
        let row = function.row();
        let (arities, templates) = form_parts(row.form);
        assert!(arities.iter().all(|&arity| arity == row.arity), "{function:?}");
        for template in templates {
            let constant = template == "true";
            assert!(constant || named_operands(template) == row.arity, "{function:?}: {template}");
        }
    }
}

#[test]
fn names_belong_to_one_function() {
    for &function in Function::ALL {
        let row = function.row();
        assert_eq!(Function::with_exact_name(row.name, row.arity), Some(function));
        if let FunctionForm::SameAs(other) = row.form {
            let other = Function::parse(other, row.arity);
            assert_eq!(Function::parse(row.name, row.arity), other);
            assert!(other.is_some_and(|other| other.row().is_computed()), "{function:?}");
        }
    }
}
