// The extension in VS Code itself, in a browser: a race is underlined, its verdict is above the program, the fix repairs it, and
// the views of the proof and the timeline open.
//
//   node browser/run.js URL FILE [PICTURE]
//
// URL is that of a server of VS Code that has the extension (`code-server --install-extension hir-0.1.0.vsix`), FILE a copy
// of docs/tutorial/race.hir in its folder. Needs puppeteer-core and the Chromium of CHROMIUM (`chromium`).
'use strict';

const assert = require('node:assert');
const puppeteer = require('puppeteer-core');
const { execFileSync } = require('node:child_process');

const [url, file, picture] = process.argv.slice(2);
const WAIT = { timeout: 120000 };

function textOf(page, selector) {
  return page.$$eval(selector, (found) => found.map((element) => element.textContent).join('\n'));
}

/** Waits for a text in elements, whose blanks may be those that do not break. */
async function expectText(page, selector, text) {
  await page.waitForFunction(
    (selector, text) => [...document.querySelectorAll(selector)].some((found) => found.textContent.replaceAll('\u00a0', ' ').includes(text)),
    WAIT, selector, text,
  ).catch(async () => assert.fail(`no \`${text}\` in ${selector}: ${await textOf(page, selector)}`));
  console.log(`seen: ${text}`);
}

/** The text of the view that was opened last: VS Code puts a page into two frames. */
async function viewText(page, text) {
  for (let turn = 0; turn < 120; turn += 1) {
    for (const frame of page.frames()) {
      const body = await frame.evaluate(() => document.body?.innerText ?? '').catch(() => '');
      if (frame !== page.mainFrame() && body.includes(text)) return console.log(`seen: ${text}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  return assert.fail(`no view with \`${text}\``);
}

/** Applies the first quick fix of the line with the race. */
async function applyFix(page) {
  await page.click('.squiggly-error');
  await page.keyboard.press('End');
  await page.keyboard.down('Control');
  await page.keyboard.press('Period');
  await page.keyboard.up('Control');
  await page.waitForSelector('.action-widget .monaco-list-row.action', WAIT);
  await page.keyboard.press('Enter');
}

async function main() {
  const executablePath = execFileSync('which', [process.env.CHROMIUM ?? 'chromium'], { encoding: 'utf8' }).trim();
  const browser = await puppeteer.launch({ executablePath, args: ['--no-sandbox'], defaultViewport: { width: 1060, height: 520 } });
  try {
    const page = await browser.newPage();
    const host = new URL(url).host;
    const payload = JSON.stringify([['openFile', `vscode-remote://${host}${file}`]]);
    const folder = file.slice(0, file.lastIndexOf('/'));
    await page.goto(`${url}/?folder=${encodeURIComponent(folder)}&payload=${encodeURIComponent(payload)}`, WAIT);
    await expectText(page, '.codelens-decoration', 'refused for');
    await page.waitForSelector('.squiggly-error', WAIT);
    console.log('seen: the race is underlined');
    await expectText(page, '.codelens-decoration', 'timeline');
    await page.hover('.squiggly-error');
    await expectText(page, '.monaco-hover', 'race on G');
    if (picture) {
      // The message comes in slowly.
      await new Promise((resolve) => setTimeout(resolve, 1000));
      await page.screenshot({ path: picture });
    }
    await applyFix(page);
    await expectText(page, '.codelens-decoration', 'proved for');
    await page.click('.editor-actions [aria-label="Show Proof"]');
    await viewText(page, 'no deadlock, no race');
    await page.click('.tab[aria-label^="race.hir"]');
    await page.click('.editor-actions [aria-label="Show Timeline"]');
    await page.waitForSelector('.tab[aria-label^="timeline: race.hir"]', WAIT);
    console.log('seen: the timeline');
  } finally {
    await browser.close();
  }
}

main();
