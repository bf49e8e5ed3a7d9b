/** The screen of a terminal: xterm with what a strict content security policy needs. */
import { FitAddon } from '@xterm/addon-fit';
import { WebglAddon } from '@xterm/addon-webgl';
import { Terminal } from '@xterm/xterm';
import { text } from '../../text.ts';

/** Lines above the screen, some MB at most. */
const SCROLLBACK_LINES = 5_000;
/** Received and not drawn yet: beyond it the page does not keep up. */
const MAX_UNDRAWN_BYTES = 4 * 1_024 * 1_024;
const FONT_PX = 14;
/** About 50 columns on a phone. */
const NARROW_FONT_PX = 11;

export interface ScreenEvents {
  /** A key press, or an answer to what the device asks a terminal. */
  onTyped(typed: string): void;
  onPasted(pasted: string): void;
  /** The key that leaves the terminal. */
  onLeave(): void;
  /** Ctrl+Shift+C. */
  onCopy(): void;
}

export class Screen {
  readonly #terminal: Terminal;
  readonly #fit = new FitAddon();
  readonly #resized: ResizeObserver;
  #undrawnBytes = 0;

  constructor(element: HTMLElement, events: ScreenEvents) {
    makeLawfulElements();
    Terminal.strings.promptLabel = text.terminal.input;
    Terminal.strings.tooMuchOutput = text.terminal.tooMuch;
    const terminal = new Terminal({
      scrollback: SCROLLBACK_LINES,
      fontFamily: '"DejaVu Sans Mono", "Roboto Mono", Menlo, Consolas, monospace',
      fontSize: element.clientWidth < 600 ? NARROW_FONT_PX : FONT_PX,
      minimumContrastRatio: 4.5,
      theme: themeOf(element),
      // A device must not make the page open an address.
      linkHandler: { activate: () => {} },
    });
    this.#terminal = terminal;
    terminal.loadAddon(this.#fit);
    drawWithWebgl(terminal);
    terminal.open(element);
    this.#fit.fit();
    this.#resized = new ResizeObserver(() => element.clientWidth > 0 && this.#fit.fit());
    this.#resized.observe(element);
    terminal.onData((typed) => events.onTyped(typed));
    terminal.attachCustomKeyEventHandler((event) => keyHandled(event, events));
    element.addEventListener(
      'paste',
      (event) => {
        event.preventDefault();
        event.stopPropagation();
        const pasted = event.clipboardData?.getData('text/plain') ?? '';
        if (pasted !== '') events.onPasted(pasted);
      },
      true,
    );
  }

  /** false: so much waits to be drawn that these are not taken. */
  write(bytes: Uint8Array | string, drawn?: () => void): boolean {
    if (this.#undrawnBytes + bytes.length > MAX_UNDRAWN_BYTES) return false;
    this.#undrawnBytes += bytes.length;
    this.#terminal.write(bytes, () => {
      this.#undrawnBytes -= bytes.length;
      drawn?.();
    });
    return true;
  }

  /** As new: also the modes that the device has set. */
  reset(): void {
    this.#terminal.reset();
  }

  clear(): void {
    this.#terminal.clear();
  }

  focus(): void {
    this.#terminal.focus();
  }

  set forReaders(on: boolean) {
    this.#terminal.options.screenReaderMode = on;
  }

  /** What is selected, or else what is on the screen and above it. */
  get copied(): string {
    if (this.#terminal.hasSelection()) return this.#terminal.getSelection();
    this.#terminal.selectAll();
    const all = this.#terminal.getSelection();
    this.#terminal.clearSelection();
    return all.trimEnd();
  }

  dispose(): void {
    this.#resized.disconnect();
    this.#terminal.dispose();
    makeUsualElements();
  }
}

/** Every other key is the device's, Ctrl-C and Tab too. false: xterm does nothing with it. */
function keyHandled(event: KeyboardEvent, events: ScreenEvents): boolean {
  const { key, ctrlKey, shiftKey, type } = event;
  const isLeave = key === 'F6' && shiftKey;
  const isCopy = ctrlKey && shiftKey && key.toLowerCase() === 'c';
  if (!isLeave && !isCopy) return true;
  event.preventDefault();
  if (type === 'keydown') events[isLeave ? 'onLeave' : 'onCopy']();
  return false;
}

/** Faster than elements. Without WebGL, or when the graphics driver takes it away, xterm draws elements. */
function drawWithWebgl(terminal: Terminal): void {
  if (document.createElement('canvas').getContext('webgl2') === null) return;
  const webgl = new WebglAddon();
  webgl.onContextLoss(() => webgl.dispose());
  terminal.loadAddon(webgl);
}

function themeOf(element: HTMLElement): {
  readonly background: string;
  readonly foreground: string;
  readonly cursor: string;
} {
  const style = getComputedStyle(element);
  return { background: style.backgroundColor, foreground: style.color, cursor: style.color };
}

// xterm writes its colours and sizes into style elements and attributes, which the page's policy refuses as text. While there is a
// terminal, the document makes elements whose text and attributes are set by script instead, which is allowed: in style sheets of the
// document, and in the style of each element. Preact makes its elements by another function.

function makeLawfulElements(): void {
  Object.defineProperty(document, 'createElement', { value: createElement, configurable: true });
}

function makeUsualElements(): void {
  Reflect.deleteProperty(document, 'createElement');
}

function createElement(tag: string): HTMLElement {
  if (tag === 'style') return sheetElement();
  const element = plainElement(tag);
  // Of a letter whose colour is none of the 256.
  if (tag === 'span')
    element.setAttribute = (name: string, value: string) => {
      if (name === 'style') element.style.cssText = value;
      else Element.prototype.setAttribute.call(element, name, value);
    };
  return element;
}

function sheetElement(): HTMLElement {
  const sheet = new CSSStyleSheet();
  const element = plainElement('span');
  element.hidden = true;
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  Object.defineProperty(element, 'textContent', {
    set(rules: string) {
      sheet.replaceSync(rules);
    },
  });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
    Element.prototype.remove.call(element);
  };
  return element;
}

function plainElement(tag: string): HTMLElement {
  return Document.prototype.createElement.call(document, tag);
}
