// The timeline and the proof of a host program, as hir-run gives them, beside its text.
'use strict';

const { execFile } = require('child_process');
const fs = require('fs/promises');
const os = require('os');
const path = require('path');
const vscode = require('vscode');
const { escapeHtml, runFlags, withPolicy } = require('./pages');

/** The document of a lens's argument, else that of the active editor. */
async function documentOf(uri) {
  if (typeof uri === 'string') return vscode.workspace.openTextDocument(vscode.Uri.parse(uri));
  return vscode.window.activeTextEditor?.document;
}

/** The output of hir-run about a document, which is saved first. Its exit status is no error: refused programs have one. */
async function runTool(document, flags) {
  await document.save();
  const settings = vscode.workspace.getConfiguration('hir', document.uri);
  const command = settings.get('run') ?? 'hir-run';
  const values = runFlags(settings);
  return new Promise((resolve, reject) => {
    execFile(command, [document.fileName, ...values, ...flags], { maxBuffer: 1 << 26 }, (error, output, messages) => {
      if (error && typeof error.code === 'string') {
        reject(new Error(`${command}: ${error.message}; the setting hir.run has the command`));
      } else {
        resolve(output + messages);
      }
    });
  });
}

/** A view beside the text; each document has one of a kind. */
const panels = new Map();

function showPage(kind, document, html) {
  const key = `${kind} ${document.uri}`;
  let panel = panels.get(key);
  if (!panel) {
    const title = `${kind}: ${path.basename(document.fileName)}`;
    const column = { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true };
    panel = vscode.window.createWebviewPanel(`hir.${kind}`, title, column, { enableScripts: true });
    panel.onDidDispose(() => panels.delete(key));
    panel.webview.onDidReceiveMessage((message) => showLine(document, message.line));
    panels.set(key, panel);
  }
  panel.webview.html = html;
  return panel;
}

/** Selects a line of the text, which the view names from 1 on. */
async function showLine(document, line) {
  if (!Number.isInteger(line)) return;
  const at = new vscode.Position(Math.max(line - 1, 0), 0);
  await vscode.window.showTextDocument(document, { viewColumn: vscode.ViewColumn.One, selection: new vscode.Range(at, at) });
}

/** Shows a text of hir-run as it is printed in a terminal. */
function showOutput(kind, document, output) {
  return showPage(kind, document, withPolicy(`<!DOCTYPE html><html><body><pre style="white-space: pre-wrap">${escapeHtml(output)}</pre></body></html>`));
}

async function withDocument(uri, show) {
  const document = await documentOf(uri);
  if (document?.languageId !== 'hir') return undefined;
  try {
    return await show(document);
  } catch (error) {
    vscode.window.showErrorMessage(error.message);
    return undefined;
  }
}

/** Shows the timeline of a program by the cost model, of the first or of this number; its messages if it has none. */
function showTimeline(uri, program) {
  const container = Number.isInteger(program) ? [`--container=${program + 1}`] : [];
  return withDocument(uri, async (document) => {
    const folder = await fs.mkdtemp(path.join(os.tmpdir(), 'hir-'));
    const file = path.join(folder, 'timeline.html');
    try {
      const output = await runTool(document, [...container, '--check-only', `--timeline=${file}`]);
      const page = await fs.readFile(file, 'utf8').catch(() => null);
      return page === null ? showOutput('timeline', document, output) : showPage('timeline', document, withPolicy(page));
    } finally {
      await fs.rm(folder, { recursive: true });
    }
  });
}

/** Shows the proof of a program: its verdict, or what refutes it. */
function showProof(uri) {
  return withDocument(uri, async (document) => showOutput('proof', document, await runTool(document, ['--check-only'])));
}

module.exports = { showProof, showTimeline };
