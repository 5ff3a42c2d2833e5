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

/** The script of a view: a link to a line of the text (`#L12`, `file.hir:12`) selects that line in the editor. */
const LINKS = `
  const editor = acquireVsCodeApi();
  document.addEventListener('click', (event) => {
    const link = event.target.closest('a');
    const line = /(?:#L|:)(\\d+)(?::\\d+)?$/.exec(link?.getAttribute('href') ?? link?.getAttributeNS('http://www.w3.org/1999/xlink', 'href') ?? '');
    if (line) {
      event.preventDefault();
      editor.postMessage({ line: Number(line[1]) });
    }
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

module.exports = { escapeHtml, runFlags, withPolicy };
