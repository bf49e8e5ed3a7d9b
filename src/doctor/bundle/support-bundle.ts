/** Puts a support bundle together: pieces, each within its limit, through the redactor, into one archive of a bounded size. */
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { plainFile, tarPieces } from '../../appliance/tar.ts';
import { messageOf, systemCode } from '../../shared/base/errors.ts';
import { instantOfMs } from '../../shared/base/instant.ts';
import { isSecretName, Redactor } from '../../shared/base/redactor.ts';
import {
  type CheckContext,
  type ContextOptions,
  credentialDirs,
  namedFiles,
  readContext,
  within,
} from '../check-context.ts';
import { namesIn, readSafely } from '../safe-files.ts';
import { type Collector, collectors, isPart, isUnknownVariable, type LeftOut, type Part } from './bundle-parts.ts';
import { type BundleReport, type BundleTarget, writeBundle } from './bundle-target.ts';

/** Of all files together, uncompressed: about 1 MB compressed, which mail accepts. */
const limitBytes = 10 * 1024 * 1024;
/** Of each file but the journal, which gets the remaining space. */
const fileLimitBytes = 2 * 1024 * 1024;

type CollectOptions = ContextOptions & { readonly target: BundleTarget; readonly all?: readonly Collector[] };

export async function collectBundle(options: CollectOptions): Promise<BundleReport> {
  const { clock, target, all = collectors } = options;
  const context = await readContext(options);
  const redactor = new Redactor(await knownSecrets(context));
  const parts: Part[] = [];
  const leftOut: LeftOut[] = [];
  for (const one of await Promise.all(all.map((collector) => collected(context, collector)))) {
    for (const piece of one) {
      if (isPart(piece)) parts.push(piece);
      else leftOut.push({ what: redactor.text(piece.what), why: redactor.text(piece.why) });
    }
  }
  const { files, cut } = fitted(
    parts.map((part) => ({ name: part.name, content: Buffer.from(rendered(part, redactor)) })),
  );
  leftOut.push(...cut);
  const nowMs = clock.wallMs();
  const made = instantOfMs(nowMs);
  const manifest = { made, lineside: options.version, limitBytes, files: files.map(sized), leftOut, never };
  const whole = [{ name: 'manifest.json', content: Buffer.from(laidOut(manifest)) }, ...files];
  const packed = await promisify(gzip)(tarOf(whole, Math.max(0, Math.floor(nowMs / 1000))));
  writeBundle(target, packed);
  return {
    output: target.output,
    bytes: packed.length,
    files: whole.map(sized),
    leftOut,
  };
}

async function collected(context: CheckContext, { what, limitMs, collect }: Collector) {
  const leftOut = (why: string) => [{ what, why }];
  try {
    return await within(context.clock, limitMs, collect(context), leftOut(`it did not end within ${limitMs / 1000} s`));
  } catch (error) {
    return leftOut(systemCode(error) || (messageOf(error).split('\n')[0] ?? ''));
  }
}

function rendered({ content }: Part, redactor: Redactor): string {
  return typeof content === 'string' ? redactor.text(content) : laidOut(redactor.json(content));
}

function laidOut(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

interface File {
  readonly name: string;
  readonly content: Buffer;
}

function sized({ name, content }: File) {
  return { name, bytes: content.length };
}

/** A file above its limit loses its beginning: the oldest lines of a log. */
export function fitted(files: readonly File[], limit = limitBytes, each = fileLimitBytes) {
  const cut: LeftOut[] = [];
  let left = limit;
  const kept = files.map(({ name, content }, index) => {
    const room = Math.min(left, index === files.length - 1 ? left : each);
    const end = content.length <= room ? content : lastLines(content, room);
    if (end !== content)
      cut.push({ what: `the first ${content.length - end.length} bytes of ${name}`, why: `more than ${room} bytes` });
    left -= end.length;
    return { name, content: end };
  });
  return { files: kept, cut };
}

function lastLines(content: Buffer, bytes: number): Buffer {
  if (bytes <= 0) return Buffer.alloc(0);
  const tail = content.subarray(content.length - bytes);
  return tail.subarray(tail.indexOf(0x0a) + 1);
}

const never = [
  'passwords, tokens (nor their hashes), private keys, secrets of subscribers',
  'bytes of the serial line, in or out',
  'reference data: records, dictionaries, drafts, events, deliveries',
  'the configuration file as it is written: its comments, and keys that are not known',
];

const directory = 'lineside-support';

function tarOf(files: readonly File[], mtimeS: number): Buffer {
  const top = { ...plainFile(directory, 0, mtimeS, 0o700), isDirectory: true, content: () => [] };
  const rest = files.map(({ name, content }) => ({
    ...plainFile(`${directory}/${name}`, content.length, mtimeS),
    content: () => [content],
  }));
  return Buffer.concat([...tarPieces([top, ...rest])]);
}

/** The secrets of this box that this user may read: they are removed wherever they occur. */
async function knownSecrets(context: CheckContext): Promise<string[]> {
  const { env, tokens, hubDir } = context;
  const files = namedFiles(context)
    .filter(({ isSecret }) => isSecret)
    .map(({ file }) => file);
  for (const dir of Object.values(credentialDirs)) files.push(...(await namesIn(dir)).map((name) => `${dir}/${name}`));
  if (hubDir !== '') files.push(`${hubDir}/webhooks.key`);
  const secrets = tokens.tokens.map(({ sha256 }) => sha256);
  for (const file of files) {
    const read = await readSafely(file, 64 * 1024);
    if (read.kind === 'text') secrets.push(...formsOf(read.bytes));
  }
  // PWD may be the data directory, and is no secret.
  const named = Object.entries(env).filter(
    ([name]) =>
      (isSecretName(name) || isUnknownVariable(name)) && name !== 'PWD' && !/_(?:FILE|DIR|PATH|SOCK)$/i.test(name),
  );
  // Short ones are words like "true".
  secrets.push(...named.map(([, value]) => value ?? '').filter((value) => value.length >= 8));
  return secrets;
}

/** A text with its lines; binary content in its usual encodings. */
function formsOf(bytes: Buffer): string[] {
  const text = bytes.toString('utf8');
  const binary = [bytes.toString('base64'), bytes.toString('base64url'), bytes.toString('hex')];
  return text.includes('\ufffd') ? binary : [text, ...text.split('\n').filter((line) => line.length >= 8), ...binary];
}
