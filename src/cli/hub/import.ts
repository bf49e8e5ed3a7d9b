/** import: a bundle of records, in one transaction, all or nothing; streamed, so its size costs no memory here. */
import { type Given, option } from '../command.ts';
import { Fields } from '../connection/answers.ts';
import { safeText } from '../output/hex.ts';
import { grouped } from '../output/numbers.ts';
import type { Call } from '../shell.ts';
import { hubCommands, reason, reasonHeader, timeText } from './hub-command.ts';
import { sendFile } from './upload.ts';

const mediaTypes = { ndjson: 'application/x-ndjson', json: 'application/json' } as const;

/**
 * Without a sign from the service. It reads a bundle when those before it are done (up to four, at most two minutes each),
 * and answers when all of it is checked and stored: minutes on a slow card.
 */
const usualTimeoutSeconds = 600;

const options = [
  option('--format <format>', 'default: json for *.json, else ndjson', { choices: ['ndjson', 'json'] }),
  reason,
] as const;

export const importCommands = hubCommands([
  {
    command: 'import',
    help: 'import a bundle of records (-: standard input): one transaction, all or nothing',
    arguments: [{ name: '<file>', help: 'the bundle, NDJSON or JSON (-: standard input)' }],
    options,
    notes: `A line each (ndjson): {"dictionary": "pumps", "businessKey": "P-101", "data": {...}}, where it is wanted with
"validFrom" and "action" (upsert, the default, or close); or JSON: {"items": [...]}. When anything is wrong with it,
nothing is imported and every fault is listed. The service takes bundles one after the other;
--timeout is how long it may give no sign.`,
    examples: [
      'lineside import site.ndjson --reason "from the planning office"',
      'zcat site.ndjson.gz | lineside import -',
    ],
    what: ({ file = '' }) => `import ${file === '-' ? 'standard input' : safeText(file)}`,
    timeoutSeconds: usualTimeoutSeconds,
    request: 'POST imports',
    answer: (call: ImportCall, [, path], { changeReason }, { file = '' }) =>
      importBundle(call, path, reasonHeader(changeReason), file),
  },
]);

type ImportCall = Call<Given<typeof options>>;

async function importBundle(call: ImportCall, path: string, reason: Record<string, string>, file: string) {
  const format = call.options.format ?? (file.endsWith('.json') ? 'json' : 'ndjson');
  const answer = await sendFile(call, {
    method: 'POST',
    path,
    headers: { 'content-type': mediaTypes[format], ...reason },
    file,
    what: 'import',
    undone: 'Nothing was imported.',
    inDoubt: 'The bundle had been sent whole: it may have been imported. Look before you try again.',
  });
  return call.print(answer, resultText(new Fields(answer, 'the result')));
}

function resultText(result: Fields): string {
  const counts = (['created', 'updated', 'closed', 'unchanged'] as const).map(
    (name) => `${grouped(result.number(name))} ${name}`,
  );
  return `imported: ${counts.join(', ')} (${timeText(result.text('txTime'))})\n`;
}
