// The views over a stand-in for the editor and one for hir-run: what is run, what is shown, and where a link leads.
'use strict';

const assert = require('node:assert');
const fs = require('node:fs');
const Module = require('node:module');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'hir-views-'));
const tool = path.join(folder, 'hir-run');
// Prints its arguments, and writes the page of a timeline unless the program is a wrong one.
fs.writeFileSync(tool, `#!/bin/sh
echo "ran <$*>"
for flag in "$@"; do case "$flag" in --timeline=*) case "$1" in *wrong*) exit 1;; esac; echo '<html><head></head><a href="#L7">7</a></html>' > "\${flag#--timeline=}";; esac; done
`, { mode: 0o755 });

const shown = { panels: [], errors: [], selections: [] };
const settings = { run: tool, sizes: { p: 4 }, ranks: null };
const vscode = {
  Position: class { constructor(line) { this.line = line; } },
  Range: class { constructor(start) { this.start = start; } },
  Uri: { parse: (text) => text },
  ViewColumn: { One: 1, Beside: -2 },
  workspace: {
    getConfiguration: () => ({ get: (name, other) => settings[name] ?? other }),
    openTextDocument: async (uri) => document(uri),
  },
  window: {
    activeTextEditor: undefined,
    showErrorMessage: (text) => shown.errors.push(text),
    showTextDocument: async (_, options) => shown.selections.push(options.selection.start.line),
    createWebviewPanel: (kind, title) => {
      const panel = { kind, title, webview: { html: '', onDidReceiveMessage: (take) => { panel.send = take; } }, onDidDispose: () => {} };
      shown.panels.push(panel);
      return panel;
    },
  },
};

function document(name) {
  return { uri: name, fileName: path.join(folder, name), languageId: 'hir', save: async () => true };
}

const load = Module._load;
Module._load = (name, ...rest) => (name === 'vscode' ? vscode : load(name, ...rest));
const { showProof, showTimeline } = require('../views');

test('the timeline is shown, and its links lead to lines', async () => {
  const panel = await showTimeline('ring.hir');
  assert.ok(panel.webview.html.includes('<a href="#L7">'));
  assert.ok(panel.webview.html.includes('Content-Security-Policy'));
  await panel.send({ line: 7 });
  assert.deepStrictEqual(shown.selections, [6]);
  assert.strictEqual(await showTimeline('ring.hir'), panel);
});

test('a program without a timeline shows its messages', async () => {
  const panel = await showTimeline('wrong.hir', 1);
  assert.ok(panel.webview.html.includes('ran &lt;'));
  assert.ok(panel.webview.html.includes('--container=2'));
});

test('a proof has the sizes of the settings', async () => {
  const panel = await showProof('ring.hir');
  assert.ok(panel.webview.html.includes('--set=p=4 --check-only'));
});

test('a missing command names the setting', async () => {
  settings.run = path.join(folder, 'none');
  await showProof('ring.hir');
  assert.match(shown.errors[0], /hir\.run/);
});
