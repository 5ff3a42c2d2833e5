// Reads a lalrpop grammar as rules of tree-sitter: `grammar/reference/src/hir2.lalrpop`, and the patterns of logos' tokens.
//
// An alternative whose action is `b.add_call(..)` becomes a node `call`; other rules get no node. Terminals of one text
// ("[" and "[ of axes") are one token here, so conflicts arise that lalrpop does not have: grammar.js declares them.
'use strict';

const fs = require('fs');

/** The words and signs of the rules of a lalrpop file, without comments. */
function lexemes(text) {
  const pattern = /\/\/[^\n]*|"([^"]*)"|=>\??|@L|@R|[A-Za-z_]\w*|\S/g;
  return [...text.matchAll(pattern)].filter((match) => !match[0].startsWith('//')).map((match) => ({
    text: match[0],
    terminal: match[1],
  }));
}

/** `TypeId` as `type_id`. */
function snakeCase(name) {
  return name.replace(/(?<!^)[A-Z]/g, (letter) => `_${letter}`).toLowerCase();
}

class Reader {
  constructor(text) {
    this.lexemes = lexemes(text);
    this.at = 0;
  }

  get text() {
    return this.lexemes[this.at]?.text ?? '';
  }

  skip(text) {
    const found = this.text === text;
    if (found) this.at += 1;
    return found;
  }

  /** `pub Name<T>: Type = { .. };` */
  rule() {
    this.skip('pub');
    const name = this.lexemes[this.at++].text;
    while (!this.skip('=')) this.at += 1;
    const alternatives = [];
    if (this.skip('{')) {
      while (!this.skip('}')) {
        alternatives.push(this.alternative());
        this.skip(',');
      }
    } else {
      alternatives.push(this.alternative());
    }
    this.skip(';');
    return { name, alternatives };
  }

  /** Symbols, the name of the node that their action builds, and their precedence. */
  alternative() {
    let level = null;
    while (this.skip('#')) {
      while (!this.skip(']')) {
        if (this.text === 'level') level = Number(this.lexemes[this.at + 2].terminal);
        this.at += 1;
      }
    }
    const symbols = this.symbols();
    const action = /^=>/.test(this.text) ? this.action() : '';
    return { symbols, level, node: /^=>\??b\.add_(\w+)\(/.exec(action)?.[1] ?? null };
  }

  /** The text of an action, without blanks. */
  action() {
    let text = '';
    for (let depth = 0; ; this.at += 1) {
      if (this.text === '' || (depth === 0 && [',', ';', '}'].includes(this.text))) return text;
      if (['(', '[', '{'].includes(this.text)) depth += 1;
      if ([')', ']', '}'].includes(this.text)) depth -= 1;
      text += this.text;
    }
  }

  symbols() {
    const found = [];
    for (;;) {
      const { text, terminal } = this.lexemes[this.at] ?? { text: '' };
      if (terminal !== undefined) {
        this.at += 1;
        found.push({ terminal });
      } else if (text === '@L' || text === '@R') {
        this.at += 1;
      } else if (/^[A-Za-z_]/.test(text)) {
        this.at += 1;
        found.push(this.skip('<') ? this.list(text) : { rule: text });
      } else if (text === '<') {
        this.at += 1;
        if (this.lexemes[this.at + 1].text === ':') this.at += 2;
        found.push(...this.symbols());
        this.skip('>');
      } else if (text === '(') {
        this.at += 1;
        found.push({ sequence: this.symbols() });
        this.skip(')');
      } else if (['?', '*', '+'].includes(text)) {
        this.at += 1;
        found.push({ repeat: text, symbol: found.pop() });
      } else {
        return found;
      }
    }
  }

  /** `Comma<T>` and `List<T>`, after their `<`. */
  list(kind) {
    const item = { sequence: this.symbols() };
    this.skip('>');
    return { list: kind, item };
  }
}

/** The rules of a lalrpop file by name. */
function readRules(file) {
  const reader = new Reader(fs.readFileSync(file, 'utf8').split('// ---- files ----')[1]);
  const rules = {};
  while (reader.text !== '') {
    const rule = reader.rule();
    rules[rule.name] = rule.alternatives;
  }
  return rules;
}

/** The patterns of `#[regex(..)]` above a variant of a token type, as one regular expression. */
function tokenPattern(file, variant) {
  const text = fs.readFileSync(file, 'utf8');
  const block = new RegExp(`((?:\\s*(?:#\\[regex\\(.*\\)\\]|//[^\\n]*))+)\\s*${variant},`).exec(text);
  const patterns = [...block[1].matchAll(/#\[regex\(r#*"(.*?)"#*[,)]/g)].map((match) => match[1]);
  return new RegExp(patterns.map((pattern) => `(${pattern})`).join('|'));
}

module.exports = { readRules, tokenPattern, snakeCase };
