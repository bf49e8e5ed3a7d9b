/** The lineside commands that a page of Markdown shows in its blocks of code, as a shell would split them. Pure. */

export interface CommandLine {
  /** As it stands on the page. */
  readonly line: string;
  /** What follows "lineside". */
  readonly words: readonly string[];
}

/** What may stand before "lineside": a prompt, sudo, variables, the checkout's own script, a unit. */
const BEFORE = /^(?:[$#] )?(?:sudo )?(?:[A-Z_]+=\S+ )*(?:scripts\/|ExecStart=\/usr\/bin\/)?lineside (?=\S)/;

export function commandLines(markdown: string): CommandLine[] {
  const joined = markdown.replaceAll(/\\\n\s*/g, ' ');
  const found: CommandLine[] = [];
  for (const line of codeLines(joined)) {
    for (const part of commandsIn(line)) {
      const start = BEFORE.exec(part);
      if (start !== null) found.push({ line: part, words: wordsOf(part.slice(start[0].length)) });
    }
  }
  return found;
}

/** Of fenced blocks and of those that are indented by four. */
function codeLines(markdown: string): string[] {
  const lines: string[] = [];
  let fence: string | undefined;
  for (const line of markdown.split('\n')) {
    const mark = /^\s*(```+)\s*(\w*)/.exec(line);
    if (mark !== null) fence = fence === undefined ? (mark[2] ?? '') : undefined;
    else if (fence === undefined ? /^ {4}\S/.test(line) : fence !== 'python') lines.push(line.trim());
  }
  return lines;
}

/** The commands of a line: what "&&", "|", ";" and "(" separate, outside of quotes; a comment ends it. */
function commandsIn(line: string): string[] {
  const parts = [''];
  for (const token of tokensOf(line)) {
    if (token.startsWith('#') && parts.at(-1)?.endsWith(' ') === true) break;
    if (/^(?:&&|\|\|?|;|[()])$/.test(token)) parts.push('');
    else parts[parts.length - 1] += token;
  }
  return parts.map((part) => part.trim());
}

/** Quoted text, separators, blanks, anything else up to the next of them. */
function tokensOf(line: string): string[] {
  return line.match(/'[^']*'|"(?:[^"\\]|\\.)*"|&&|\|\|?|;|[()]|\s+|[^\s'"&|;()]+|./g) ?? [];
}

/** Without redirections and quotes; `[options]` of a usage line is none. */
function wordsOf(text: string): string[] {
  const words: string[] = [];
  let open = false;
  for (const token of tokensOf(text.replaceAll(/\s*(?:2>&1|\d?[<>]+\s*\S+)/g, ''))) {
    if (/^\s+$/.test(token)) open = false;
    else {
      const bare = /^(['"]).*\1$/s.test(token) ? token.slice(1, -1) : token;
      if (open) words[words.length - 1] += bare;
      else words.push(bare);
      open = true;
    }
  }
  return words;
}
