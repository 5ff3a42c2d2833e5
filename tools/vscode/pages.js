// What the views are made of that needs no editor.
'use strict';

/** The text as it is shown in a page. */
function escapeHtml(text) {
  return text.replace(/[&<>"]/g, (sign) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[sign]);
}

/** The flags of hir-run for the settings of the editor. */
function runFlags(settings) {
  const flags = Object.entries(settings.get('sizes') ?? {}).map(([name, value]) => `--set=${name}=${value}`);
  for (const [name, flag] of [['ranks', '-n'], ['streams', '--streams']]) {
    const value = settings.get(name);
    if (Number.isInteger(value)) flags.push(flag, String(value));
  }
  return flags;
}

/**
 * The script of a view: a click on a link to a line (`#L12`, `ring.hir:12`), and one that selects a line of the program in the
 * page of a timeline, selects that line in the editor.
 */
const LINKS = `
  const editor = acquireVsCodeApi();
  let shown;
  function lineOf(text) {
    return Number(/(?:^|#)L(\\d+)$|:(\\d+)(?::\\d+)?$/.exec(text ?? '')?.slice(1).find(Boolean) ?? 0);
  }
  document.addEventListener('click', (event) => {
    const link = lineOf(event.target.closest('a')?.getAttribute('href'));
    const selected = lineOf(document.querySelector('#lines .selected')?.id);
    if (link) event.preventDefault();
    if (link || (selected && selected !== shown)) editor.postMessage({ line: link || selected });
    shown = selected;
  });
`;

/** A page that loads nothing from elsewhere, and whose links to lines lead into the editor. */
function withPolicy(page) {
  const policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";
  const meta = `<meta http-equiv="Content-Security-Policy" content="${policy}">`;
  const head = /<head[^>]*>/i.exec(page);
  const start = head ? head.index + head[0].length : (/<html[^>]*>/i.exec(page)?.[0].length ?? 0) + (/<html/i.exec(page)?.index ?? 0);
  return `${page.slice(0, start)}${meta}<script>${LINKS}</script>${page.slice(start)}`;
}

module.exports = { escapeHtml, LINKS, runFlags, withPolicy };
