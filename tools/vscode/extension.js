// Starts hir-lsp for host programs, passes the settings on, and shows proofs and timelines of hir-run beside the text.
'use strict';

const vscode = require('vscode');
const { LanguageClient } = require('vscode-languageclient/node');
const { showProof, showTimeline } = require('./views');

/** The settings as the server takes them (docs/editor.md). */
function serverSettings() {
  const settings = vscode.workspace.getConfiguration('hir');
  const names = ['sizes', 'ranks', 'streams', 'proof', 'inlayHints', 'docs', 'run', 'machine'];
  return Object.fromEntries(names.map((name) => [name, settings.get(name)]));
}

/** The client, while the extension is active. */
let client;

async function activate(context) {
  const command = vscode.workspace.getConfiguration('hir').get('server', 'hir-lsp');
  client = new LanguageClient('hir', 'Host programs', { command }, {
    documentSelector: [{ language: 'hir' }],
    initializationOptions: serverSettings(),
    // The timeline of a lens is shown here, not in the browser: its arguments are the document, and numbers of text and program.
    middleware: {
      executeCommand: (command, given, next) =>
        command === 'hir.timeline' ? showTimeline(given[0], given[2]) : next(command, given),
    },
    synchronize: { fileEvents: vscode.workspace.createFileSystemWatcher('**/*.hir') },
  });
  context.subscriptions.push(
    vscode.commands.registerCommand('hir.showTimeline', () => showTimeline()),
    vscode.commands.registerCommand('hir.showProof', () => showProof()),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration('hir')) {
        client.sendNotification('workspace/didChangeConfiguration', { settings: serverSettings() });
      }
    }),
  );
  await client.start();
}

function deactivate() {
  return client?.stop();
}

module.exports = { activate, deactivate };
