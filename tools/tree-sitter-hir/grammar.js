// The grammar of `.hir` files for tree-sitter.
//
// The rules of `hir 2` are those of grammar/reference/src/hir2.lalrpop, and the tokens those that logos matches
// (grammar/src): lalrpop.js reads both. `src/scanner.c` makes lines and blocks, and tells first words of statements from
// names. The printed form, whose statements are split before its grammar reads them, is read here as brackets, calls,
// tensors, domains and words: enough for colours, folds and selections.
'use strict';

const path = require('path');
const { readRules, tokenPattern, snakeCase } = require('./lalrpop.js');

const ROOT = path.join(__dirname, '../..');
const RULES = readRules(path.join(ROOT, 'grammar/reference/src/hir2.lalrpop'));
const HIR2_TOKENS = path.join(ROOT, 'grammar/src/hir2/token.rs');
const PRINTED_TOKENS = path.join(ROOT, 'grammar/src/token.rs');

/** Terminals that are no text of their own. */
const TERMINALS = {
  NEWLINE: ($) => $._newline,
  INDENT: ($) => $._indent,
  DEDENT: ($) => $._dedent,
  NAME: ($) => $._name,
  INT: ($) => $.int,
  HEX: ($) => $.hex,
  FLOAT: ($) => $.float,
  BOOL: ($) => $.bool,
  VERBATIM: ($) => $.verbatim,
  TEXT: ($) => $.text,
  VERSION: ($) => alias(/\d+(\.\d+)?/, $.version_number),
  ERA: ($) => alias(/[^\s][^\n]*/, $.era),
  KIND: ($) => alias(token(/[rbi]\./), $.kind),
  // `G.0`, which is a name here; `for i in G.0` is read as a loop over a range.
  POSITION: ($) => $._name,
};

/** Rules that get a node of their name, not of their actions'. */
const NODES = new Set(['Param', 'Axis', 'Size', 'Clause', 'Argument', 'GridAxis', 'Block']);

/** The rules of tree-sitter, made of those of lalrpop. */
class Translator {
  constructor() {
    this.rules = {};
  }

  translate() {
    for (const [name, alternatives] of Object.entries(RULES)) {
      if (!['File', 'Comma', 'List', 'AnyName'].includes(name)) this.addRule(name, alternatives);
    }
    return this.rules;
  }

  ruleName(name) {
    return NODES.has(name) ? snakeCase(name) : `_${snakeCase(name)}`;
  }

  addRule(name, alternatives) {
    const bodies = [];
    const nodes = new Map();
    for (const alternative of alternatives) {
      const body = ($) => this.alternative($, alternative);
      if (alternative.node === null || NODES.has(name)) {
        bodies.push(body);
      } else {
        nodes.set(alternative.node, [...(nodes.get(alternative.node) ?? []), body]);
      }
    }
    for (const [node, choices] of nodes) {
      const earlier = this.rules[node];
      this.rules[node] = ($) => choice(...choices.map((each) => each($)), ...(earlier ? [earlier($)] : []));
      bodies.push(($) => $[node]);
    }
    this.rules[this.ruleName(name)] = ($) => choice(...bodies.map((each) => each($)));
  }

  alternative($, { symbols, level }) {
    const body = this.sequence($, symbols);
    return level === null || level === 0 ? body : prec.left(20 - level, body);
  }

  sequence($, symbols) {
    const isPosition = symbols[0]?.terminal === 'POSITION';
    // Without bounds it is a range.
    const whole = isPosition ? symbols.map((each, at) => (at === 1 ? each.symbol : each)) : symbols;
    const parts = whole.map((symbol) => this.symbol($, symbol));
    return parts.length === 1 ? parts[0] : seq(...parts);
  }

  symbol($, symbol) {
    if (symbol.terminal !== undefined) {
      return TERMINALS[symbol.terminal]?.($) ?? symbol.terminal.split(' ')[0];
    }
    if (symbol.rule === 'AnyName') return $._any_name;
    if (symbol.rule !== undefined) return $[this.ruleName(symbol.rule)];
    if (symbol.sequence !== undefined) return this.sequence($, symbol.sequence);
    if (symbol.list !== undefined) return this.list($, symbol);
    const inner = this.symbol($, symbol.symbol);
    return { '?': optional, '*': repeat, '+': repeat1 }[symbol.repeat](inner);
  }

  /** One or more with commas between; `Comma` may be empty and may end with a comma. */
  list($, { list, item }) {
    const one = this.symbol($, item);
    const several = seq(one, repeat(seq(',', one)));
    return list === 'List' ? several : optional(seq(several, optional(',')));
  }
}

const HIR2 = new Translator().translate();

module.exports = grammar({
  name: 'hir',
  word: ($) => $.identifier,
  extras: ($) => [/\s/, $.comment],
  externals: ($) => [$._newline, $._indent, $._dedent, $._word_name, $._error],
  // What is told only later: `[` of devices, of the axes of a mesh, of a loop and of a list; `{` of a group and of a list; a
  // name of an argument and one in an expression.
  conflicts: ($) => [
    [$._extents, $.paren],
    [$.axis, $.list_node],
    [$.name, $._any_name],
    [$._atom, $._any_name],
    [$._target, $.braces],
    [$.group, $.braces],
    [$._device_list, $.list_node],
    [$._device, $._int],
    [$.grid_mesh, $._device_list],
  ],

  rules: {
    source_file: ($) => repeat(choice($.hir2, $.container, $.printed_section, $.printed_version, $.imported_file, $._log_text)),
    hir2: ($) => prec.right(seq($._version, repeat($._item))),
    ...HIR2,

    _name: ($) => choice($.identifier, alias($._word_name, $.identifier)),
    _any_name: ($) => choice($._name, alias($.bool, $.identifier)),
    identifier: () => tokenPattern(HIR2_TOKENS, 'Name'),
    int: () => tokenPattern(HIR2_TOKENS, 'Int'),
    hex: () => tokenPattern(HIR2_TOKENS, 'Hex'),
    // The tools join what begins as an integer: `1.e5`, `1.`.
    float: ($) => choice($._float, seq($.int, token.immediate('.'))),
    _float: () => token(prec(1, new RegExp(`${tokenPattern(HIR2_TOKENS, 'Float').source}|[0-9]+\\.[eE][+-]?[0-9]+`))),
    verbatim: () => tokenPattern(HIR2_TOKENS, 'Verbatim'),
    text: () => /"[^"\n]*"/,
    bool: () => choice('true', 'false'),
    comment: () => token(prec(1, /\/\/[^\n]*/)),

    // An imported file of a bundle.
    imported_file: ($) => seq('file', $.text),

    // The printed form.
    printed_version: ($) => seq('hir', alias(/\d+(\.\d+)?/, $.version_number), $.printed_braces),
    printed_section: ($) =>
      prec.right(choice(seq('Aliases', ':', $.printed_braces), seq('Index', 'definitions', ':', repeat($._printed)))),
    container: ($) => seq(choice('%HostIrContainer', '%kernel'), repeat($._printed_part), $.printed_braces),
    _printed: ($) => choice($._printed_part, $.printed_braces),
    _printed_part: ($) =>
      choice($.tensor, $.domain, $.printed_call, $.share_mem_handles, $.printed_word, $.typed_number, $.number, $.text, $.printed_parentheses, $.printed_brackets, $._printed_keyword, $._printed_sign),
    _printed_keyword: () => choice('FOR', 'IF', 'ELSE', 'in', 'from', 'to', 'into', 'step'),
    _printed_sign: () => choice(',', ';', ':', '=', '.', '...', '->', '?', token(prec(-1, /[-+*\/%<>&|^!~=]+/))),
    printed_call: ($) => prec(1, seq(field('function', choice($.printed_word, $.tensor)), field('arguments', $.printed_parentheses))),
    // nvFuser does not close its parenthesis.
    share_mem_handles: ($) => prec.right(seq('ShareMemHandles', '(', repeat($._printed), optional(')'))),
    printed_parentheses: ($) => seq('(', repeat($._printed), ')'),
    printed_brackets: ($) => seq('[', repeat($._printed), ']'),
    printed_braces: ($) => seq('{', repeat($._printed), '}'),
    tensor: () => token(prec(2, new RegExp(`${tokenPattern(PRINTED_TOKENS, 'TensorHead').source}|T[0-9]+`))),
    domain: ($) => seq(alias(token(prec(2, tokenPattern(PRINTED_TOKENS, 'DomainHead'))), $.domain_head), repeat($._printed), '}'),
    // A keyword is told from an identifier, so the words of `hir 2` come first.
    printed_word: ($) => choice($.identifier, $._qualified_word),
    _qualified_word: () => token(tokenPattern(PRINTED_TOKENS, 'Word')),
    typed_number: () => token(prec(2, tokenPattern(PRINTED_TOKENS, 'Typed'))),
    number: () => token(/0x[0-9a-fA-F]+|[0-9]*\.?[0-9]+\.?([eE][+-]?[0-9]+)?/),

    // Lines of a log around the containers.
    _log_text: () => token(prec(-2, /[^\s%]+|%/)),
  },
});
