/** docs/reference/exit-statuses.md: the statuses of the command line, and how a script reads a failure. Pure. */
import { CliFailure, exitStatuses, failureJson, failureLine } from '../../src/cli/failure.ts';
import { blocks, code, MADE, type Page, table } from './page.ts';

const example = new CliFailure('nothing', 'NOT_FOUND', 'there is no record "T-9" in tools', {
  what: 'cannot read record T-9 of tools',
});

export function exitStatusPage(): Page {
  const text = blocks(
    MADE,
    '# Exit statuses',
    intro,
    table(
      ['status', 'meaning'],
      exitStatuses().map(([status, meaning]) => [code(status), meaning]),
    ),
    '## For scripts',
    scripts,
    `\`\`\`text\n${failureLine(example).trimEnd()}\n\`\`\``,
    'With `--json` it is one object; `next` says what to do, `reasons` lists single faults if there are several:',
    `\`\`\`json\n${JSON.stringify(failureJson(example))}\n\`\`\``,
  );
  return { text, holes: [] };
}

const intro = `For operators who write scripts. All commands of ${code('lineside')} use these statuses; ${code('lineside exit-status')} prints the list on the box.`;
const scripts = `Branch on the status or on ${code('code')}, not on the words of a message: words may change. A failure is written to standard
error:`;
