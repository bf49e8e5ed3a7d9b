/**
 * A real browser for the console's tests, at the real built product. Whatever a page does that the console must never do
 * (break its content security policy, ask another host, throw) fails the test that opened it.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after } from 'node:test';
import puppeteer, {
  type Browser,
  type BrowserContext,
  type CDPSession,
  type ElementHandle,
  type HTTPRequest,
  type KeyInput,
  type Page,
} from 'puppeteer-core';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { ROOT, temporaryDirectory } from '../e2e/daemon.ts';

type Kind = 'chrome' | 'firefox';
const programs: Readonly<Record<Kind, string | undefined>> = {
  chrome: ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync),
  firefox: ['/usr/bin/firefox-esr', '/usr/bin/firefox'].find(existsSync),
};
const missing = (kind: Kind, name: string): string | false =>
  programs[kind] === undefined ? `no ${name} on this machine: run scripts/bootstrap --test` : false;
/** What this machine lacks for these tests; false: nothing. */
export const browserMissing = missing('chrome', 'Chromium');
export const firefoxMissing = missing('firefox', 'Firefox');
/** Where a picture of each view that is checked is kept: CONSOLE_PICTURES=DIRECTORY. */
const pictures = process.env['CONSOLE_PICTURES'] ?? '';
/** For hunting what depends on the page being quick: CONSOLE_SLOWER=6 makes its processor six times slower. */
const slower = Number(process.env['CONSOLE_SLOWER'] ?? 1);
/** Two busy cores: a test that passes never waits so long. */
export const LIMIT_MS = 60_000;
/** More than any view has. */
const MAX_TABS = 80;

export interface Opened {
  readonly page: Page;
  /** The first that can be seen, by what it is and what it is called, as a screen reader would find it. */
  find(role: string, name: string | RegExp): Promise<ElementHandle>;
  /** Until the text of the page (or of what the selector finds) has this. */
  sees(text: string | RegExp, selector?: string): Promise<void>;
  /** Until it has not. */
  misses(text: string | RegExp, selector?: string): Promise<void>;
  click(role: string, name: string | RegExp): Promise<void>;
  /** The text of each element that the selector finds, whether it can be seen or not. */
  texts(selector: string): Promise<string[]>;
  fill(name: string | RegExp, text: string): Promise<void>;
  /** The text of a field, or of an editor if it is short enough to be drawn whole. */
  valueOf(name: string | RegExp): Promise<string>;
  /** Goes to a view, by the part of its address after the path. */
  show(hash: string): Promise<void>;
  /** From now on, requests to such an address are `take`'s to answer, to continue, or to keep. */
  intercept(url: RegExp, take: (request: HTTPRequest) => unknown): Promise<void>;
  choose(name: string | RegExp, value: string): Promise<void>;
  /** What has the focus, in words ("button: Send"): for tests by keyboard. */
  focused(): Promise<string>;
  /** Presses Tab (or Shift+Tab) until that has the focus. */
  tabTo(focused: string, back?: boolean): Promise<void>;
  /** All that the page did wrong, so far. */
  readonly faults: readonly string[];
}

export interface PageOptions {
  readonly width?: number;
  readonly height?: number;
  readonly dark?: boolean;
  readonly touch?: boolean;
  readonly browser?: Kind;
  /** What the tab has in its sessionStorage when the page is first loaded. */
  readonly tab?: Readonly<Record<string, string>>;
}

/**
 * A profile of the browser with its window. It has one page at a time and is used again: a profile, its window and the process of its
 * pages cost 0.7 s of CPU. An empty tab keeps the window open.
 */
interface Profile {
  readonly context: BrowserContext;
  /** Of the empty tab. */
  readonly session: CDPSession | undefined;
  /** Where it is put back. */
  readonly unused: Profile[];
}

/** A headless browser has neither a mouse nor a finger: with a mouse the rows of the log have one line. A page of a phone gets a finger. */
const MOUSE = '--blink-settings=primaryPointerType=4,availablePointerTypes=4,primaryHoverType=2,availableHoverTypes=2';
const browsers = new Map<string, Promise<Browser>>();
const opened = new Map<Opened, Profile>();
const unusedProfiles = new Map<Browser, Profile[]>();

after(async () => {
  for (const browser of browsers.values()) await (await browser).close();
});

/** A page of its own, with nothing remembered. */
export async function openPage(url: string, options: PageOptions = {}): Promise<Opened> {
  const kind = options.browser ?? 'chrome';
  const profile = await takeProfile(kind, await browserOf(kind, options.touch === true));
  const page = await profile.context.newPage();
  page.setDefaultTimeout(LIMIT_MS);
  const faults = await watchFaults(page, new URL(url).host);
  const { width = 1280, height = 800, touch = false, tab } = options;
  await page.setViewport({ width, height, hasTouch: touch, isMobile: touch });
  if (kind === 'chrome') await emulateMedia(page, options.dark === true);
  if (slower > 1) await page.emulateCPUThrottling(slower);
  const filling = tab && (await page.evaluateOnNewDocument((kept) => Object.assign(sessionStorage, kept), tab));
  await page.goto(url, { waitUntil: 'domcontentloaded' });
  if (filling) await page.removeScriptToEvaluateOnNewDocument(filling.identifier);
  const one = wrapped(page, faults, kind);
  opened.set(one, profile);
  return one;
}

async function takeProfile(kind: Kind, browser: Browser): Promise<Profile> {
  const unused = unusedProfiles.get(browser) ?? [];
  unusedProfiles.set(browser, unused);
  const kept = unused.pop();
  if (kept !== undefined) return kept;
  const context = await browser.createBrowserContext();
  // The driver has this for Chromium alone.
  const session = kind === 'chrome' ? await (await context.newPage()).createCDPSession() : undefined;
  return { context, session, unused };
}

/** Closes its page; the next one finds nothing of it. */
async function putBack({ page }: Opened, { context, session, unused }: Profile): Promise<void> {
  if (session === undefined) return context.close();
  const { origin } = new URL(page.url());
  await page.close();
  await session.send('Storage.clearDataForOrigin', { origin, storageTypes: 'all' });
  unused.push({ context, session, unused });
}

function browserOf(kind: Kind, isTouched: boolean): Promise<Browser> {
  const name = isTouched ? `${kind}, touched` : kind;
  const running = browsers.get(name);
  if (running !== undefined) return running;
  const chromeOnly = [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-dev-shm-usage',
    '--disable-background-networking',
    // All pages of a profile are in one process, which is started once.
    '--renderer-process-limit=1',
    '--disable-site-isolation-trials',
    // Of the window around the page: they are painted by software.
    '--animation-duration-scale=0',
    ...(isTouched ? [] : [MOUSE]),
  ];
  const started = puppeteer.launch({
    browser: kind,
    executablePath: programs[kind] ?? '',
    headless: true,
    args: kind === 'chrome' ? chromeOnly : [],
    protocolTimeout: 2 * LIMIT_MS,
  });
  browsers.set(name, started);
  return started;
}

/** The driver has this for Chromium alone. */
function emulateMedia(page: Page, dark: boolean): Promise<void> {
  return page.emulateMediaFeatures([
    { name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' },
    // No checked element is in the middle of a movement.
    { name: 'prefers-reduced-motion', value: 'reduce' },
  ]);
}

export function answerJson(request: HTTPRequest, body: unknown): Promise<void> {
  return request.respond({ contentType: 'application/json', body: JSON.stringify(body) });
}

/** For afterEach: every page that a test opened did nothing wrong; they are closed. */
export async function closePages(): Promise<void> {
  const all = [...opened];
  opened.clear();
  for (const [one, profile] of all) await putBack(one, profile);
  for (const [{ faults }] of all) assert.deepEqual(faults, []);
}

/** For a page that was made to do wrong. */
export async function forgive(one: Opened): Promise<void> {
  const profile = opened.get(one);
  opened.delete(one);
  if (profile !== undefined) await putBack(one, profile);
}

async function watchFaults(page: Page, host: string): Promise<readonly string[]> {
  const faults: string[] = [];
  page.on('pageerror', (error) => faults.push(`page error: ${String(error)}`));
  page.on('console', (message) => {
    // What the box refuses, and that it is unreachable, is shown by the page itself.
    const isAnswer = message.text().startsWith('Failed to load resource');
    if (message.type() === 'error' && !isAnswer) faults.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => {
    const { host: asked, protocol } = new URL(request.url());
    if (asked !== host && protocol !== 'data:') faults.push(`another host is asked: ${request.url()}`);
  });
  await page.exposeFunction('lsFault', (fault: string) => void faults.push(fault));
  // Functions that are handed to the page were compiled for Node, with a helper that keeps their names.
  await page.evaluateOnNewDocument('globalThis.__name = (named) => named;');
  await page.evaluateOnNewDocument(() => {
    const report = (globalThis as unknown as { lsFault: (fault: string) => void }).lsFault;
    document.addEventListener('securitypolicyviolation', (event) => {
      report(`content security policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
    });
    addEventListener('unhandledrejection', (event) => report(`unhandled rejection: ${String(event.reason)}`));
  });
  return faults;
}

function wrapped(page: Page, faults: readonly string[], kind: Kind): Opened {
  const look = async (role: string, name: string | RegExp): Promise<ElementHandle> => {
    const found = await patiently(`${role} "${name}"`, async () => {
      const handle = await page.evaluateHandle(findByRole, role, ...pattern(name));
      return handle.asElement();
    });
    return found as ElementHandle;
  };
  const find = async (role: string, name: string | RegExp): Promise<ElementHandle> => {
    const found = await look(role, name);
    // The page may draw it again meanwhile.
    return (await judgeDialog(page)) ? look(role, name) : found;
  };
  const waitForText = async (text: string | RegExp, selector: string, wanted: boolean): Promise<void> => {
    try {
      await patiently(`${text}`, () => page.evaluate(hasText, selector, wanted, ...pattern(text)));
    } catch (error) {
      const is = await page.evaluate((at) => document.querySelector<HTMLElement>(at)?.innerText, selector);
      throw new Error(`${wanted ? 'not' : 'still'} seen in ${selector}: ${text}; but: ${is}`, { cause: error });
    }
    await judgeDialog(page);
  };
  const focused = (): Promise<string> =>
    page.evaluate(() => {
      const element = document.activeElement as HTMLElement | null;
      const label = element?.id ? document.querySelector<HTMLElement>(`label[for="${element.id}"]`) : undefined;
      const words = label ?? element;
      return `${element?.localName}: ${element?.getAttribute('aria-label') ?? words?.innerText ?? ''}`;
    });
  return {
    page,
    find,
    sees: (text, selector = 'body') => waitForText(text, selector, true),
    misses: (text, selector = 'body') => waitForText(text, selector, false),
    // Not by its place on the screen: what is above it may grow while the mouse moves.
    click: async (role, name) => (await find(role, name)).evaluate((element) => (element as HTMLElement).click()),
    texts: (selector) => page.$$eval(selector, (all) => all.map((one) => (one as HTMLElement).innerText)),
    async fill(name, text) {
      const field = await find('field', name);
      const isEditor = await field.evaluate((element) => {
        (element as HTMLElement).focus();
        if (element.shadowRoot === null) (element as HTMLInputElement).select();
        return element.shadowRoot !== null;
      });
      if (isEditor) await pressWithControl(page, 'a');
      await page.keyboard.press('Backspace');
      // In one step, as from the clipboard: each key costs 3 ms of CPU. Tests of typing press the keys. The driver has it for Chromium.
      await (kind === 'chrome' ? page.keyboard.sendCharacter(text) : page.keyboard.type(text));
    },
    show: (hash) =>
      page.evaluate((to) => {
        location.hash = to;
      }, hash),
    async intercept(url, take) {
      await page.setRequestInterception(true);
      page.on('request', (request) => void (url.test(request.url()) ? take(request) : request.continue()));
    },
    valueOf: async (name) => (await find('field', name)).evaluate(shownValue),
    async choose(name, value) {
      await (await find('field', name)).select(value);
    },
    focused,
    async tabTo(wanted, back = false) {
      const seen: string[] = [];
      for (let presses = 0; presses < MAX_TABS; presses += 1) {
        if (back) await page.keyboard.down('Shift');
        await page.keyboard.press('Tab');
        if (back) await page.keyboard.up('Shift');
        const now = await focused();
        if (now === wanted) return;
        seen.push(now);
      }
      throw new Error(`Tab does not lead to "${wanted}": ${seen.join(', ')}`);
    },
    faults,
  };
}

export async function pressWithControl({ keyboard }: Page, key: KeyInput): Promise<void> {
  await keyboard.down('Control');
  await keyboard.press(key);
  await keyboard.up('Control');
}

/** Not the browser driver's own waiting, which builds functions from text in the page: its policy forbids that, and stays. */
async function patiently<T>(what: string, look: () => Promise<T>) {
  return until(
    what,
    async () => {
      try {
        return await look();
      } catch (error) {
        // The page is being loaded again.
        if (/context was destroyed|Cannot find context/i.test(String(error))) return undefined;
        throw error;
      }
    },
    LIMIT_MS,
  );
}

function pattern(text: string | RegExp): [string, string] {
  return typeof text === 'string' ? [text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'), ''] : [text.source, text.flags];
}

/** Runs in the page. Role "field" is whatever has a label. */
function findByRole(role: string, source: string, flags: string): Element | undefined {
  const selectors: Readonly<Record<string, string>> = {
    button: 'button',
    link: 'a[href]',
    // Not one that an editor is about to replace.
    field: 'input, select, textarea:not(.loading), .code',
    heading: 'h1, h2, h3',
    listbox: '[role=listbox]',
  };
  const whole = new RegExp(`^(?:${source})$`, flags);
  const nameOf = (element: HTMLElement): string => {
    const label = element.id === '' ? null : document.querySelector<HTMLElement>(`label[for="${element.id}"]`);
    return (element.getAttribute('aria-label') ?? label?.innerText ?? element.innerText).trim();
  };
  // What lies below an open dialog cannot be reached by anybody.
  const scope = [...document.querySelectorAll('dialog[open]')].at(-1) ?? document;
  return [...scope.querySelectorAll<HTMLElement>(selectors[role] ?? role)].find(
    (element) => element.checkVisibility() && !element.matches(':disabled') && whole.test(nameOf(element)),
  );
}

/** Runs in the page. */
function shownValue(field: Element): string {
  if (field.shadowRoot === null) return (field as HTMLInputElement).value;
  return [...field.shadowRoot.querySelectorAll('.cm-line')].map((line) => line.textContent).join('\n');
}

/** Runs in the page. */
function hasText(selector: string, wanted: boolean, source: string, flags: string): boolean {
  const element = document.querySelector<HTMLElement>(selector);
  const found = element !== null && new RegExp(source, flags).test(element.innerText);
  return found === wanted;
}

const axe = readFileSync(join(ROOT, 'node_modules/axe-core/axe.min.js'), 'utf8');

const judged = new Set<string>();

/** Before a test does anything in a dialog that no page of this file had before. */
async function judgeDialog(page: Page): Promise<boolean> {
  const title = await page.evaluate(
    () => [...document.querySelectorAll<HTMLElement>('dialog[open] h2')].at(-1)?.innerText ?? '',
  );
  if (title === '' || judged.has(title)) return false;
  judged.add(title);
  await assertAccessible({ page }, `dialog "${title}"`);
  return true;
}

/** No violation of WCAG 2.2 A and AA, nor of axe's best practices, and nothing wider than the screen. A dialog is judged without being asked for. */
export async function assertAccessible({ page }: Pick<Opened, 'page'>, what: string): Promise<void> {
  if (pictures !== '')
    await page.screenshot({ path: join(pictures, `${what.replaceAll(/[^\w,-]+/g, ' ')}.png`), fullPage: true });
  // Parsed and optimized once for a document.
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(axe);
  const found = await page.evaluate(async () => {
    const { axe: run } = globalThis as unknown as {
      axe: {
        run(
          options: object,
        ): Promise<{ violations: { id: string; help: string; nodes: { html: string; failureSummary: string }[] }[] }>;
      };
    };
    const { violations } = await run.run({ preload: false, resultTypes: ['violations'] });
    return violations.map(
      ({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.html} ${node.failureSummary}`).join(' | ')}`,
    );
  });
  assert.deepEqual(found, [], `${what}: axe`);
  assert.deepEqual(await page.evaluate(buttonsOutOfSight), [], `${what}: buttons of a dialog below the screen`);
  const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wider <= 0, `${what}: ${wider} px wider than the screen`);
}

/** Runs in the page: however long a dialog is, its buttons are in sight. */
function buttonsOutOfSight(): string[] {
  const all = [...document.querySelectorAll<HTMLElement>('dialog[open] .foot button')];
  return all
    .filter((one) => {
      const { left, width, top, bottom } = one.getBoundingClientRect();
      const seen = document.elementFromPoint(left + width / 2, (top + bottom) / 2);
      // Above: the results of a search are below its form.
      return bottom > 0 && !(bottom <= innerHeight && seen !== null && one.contains(seen));
    })
    .map((one) => one.innerText);
}

/** A folder for the page's downloads, as in a browser without a dialog for files. */
export async function downloadsOf({ page }: Opened): Promise<string> {
  const downloadPath = temporaryDirectory();
  const { id } = page.browserContext();
  const session = await page.browser().target().createCDPSession();
  await session.send('Browser.setDownloadBehavior', {
    behavior: 'allow',
    downloadPath,
    ...(id !== undefined && { browserContextId: id }),
  });
  await page.evaluate(() => Reflect.deleteProperty(globalThis, 'showSaveFilePicker'));
  return downloadPath;
}
