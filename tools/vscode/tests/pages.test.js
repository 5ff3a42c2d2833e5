'use strict';

const assert = require('node:assert');
const { test } = require('node:test');
const vm = require('node:vm');
const { escapeHtml, LINKS, runFlags, withPolicy } = require('../pages');

test('texts of tools are no markup', () => {
  assert.strictEqual(escapeHtml('a < b & "c"'), 'a &lt; b &amp; &quot;c&quot;');
});

test('settings become flags', () => {
  const values = { sizes: { p: 4, '*': 8 }, ranks: 2, streams: null };
  assert.deepStrictEqual(runFlags({ get: (name) => values[name] }), ['--set=p=4', '--set=*=8', '-n', '2']);
  assert.deepStrictEqual(runFlags({ get: () => undefined }), []);
});

test('a page gets its policy first', () => {
  for (const page of ['<!DOCTYPE html><html lang="en"><head><title>t</title></head></html>', '<html><body></body></html>', '<p>']) {
    const changed = withPolicy(page);
    assert.ok(changed.includes("default-src 'none'"));
    assert.ok(changed.indexOf('<meta') < changed.indexOf('<script>'));
    assert.ok(page.includes('<p>') || changed.startsWith(page.slice(0, page.indexOf('>', page.indexOf('<html')) + 1)));
  }
});

test('clicks lead to lines', () => {
  const sent = [];
  let take;
  let selected;
  const document = { addEventListener: (_, listener) => { take = listener; }, querySelector: () => selected };
  vm.runInNewContext(LINKS, { document, acquireVsCodeApi: () => ({ postMessage: ({ line }) => sent.push(line) }) });
  const click = (href) => take({ target: { closest: () => href && { getAttribute: () => href } }, preventDefault: () => {} });
  click('#L12');
  click('ring.hir:7:3');
  click('https://example.org/');
  click(null);
  // A line or a span of the page of a timeline.
  selected = { id: 'L9' };
  click(null);
  click(null);
  assert.deepStrictEqual(sent, [12, 7, 9]);
});
