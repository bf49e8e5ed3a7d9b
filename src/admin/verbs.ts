/**
 * Everything that the administration helper can do. Each verb is a fixed command line, made of values that its schema admits: never a
 * path, a program or a shell; or it is done by the helper itself. The hub knows the list as the helper does; the helper checks every request again. Pure.
 */
import { type Static, type TObject, type TProperties, Type } from '@sinclair/typebox';
import { roles, TOKEN_NAME } from '../shared/auth/tokens.ts';

/** Four times the example with every key and its comment: the command that takes the text has the same limit, in bytes. */
const MAX_TEXT_CHARS = 64 * 1_024;
/** A request is one line of JSON, which writes a character with six bytes at most; without a text it has a few hundred. */
export const MAX_REQUEST_BYTES = 8 * 1_024 + 6 * MAX_TEXT_CHARS;
/** Within it the whole line must have come. */
export const REQUEST_LIMIT_MS = 5_000;
/** How long a request waits for those before it: the view of administration asks for three things at once, each a program to be started. */
export const TURN_LIMIT_MS = 30_000;

/** Of an uploaded file. */
export const MAX_UPLOAD_BYTES = 400 * 1_024 * 1_024;
/** 400 MiB at 1 Mbit/s. */
export const RECEIVING_LIMIT_MS = 3_600_000;
/** A sender from whom nothing comes for so long has gone. */
export const UPLOAD_STALLED_MS = 60_000;
/** How long the check of an upload waits for its turn: the longest verb. */
export const UPLOAD_TURN_LIMIT_MS = 900_000;

export const uploadKinds = ['update', 'restore'] as const;
/** What an upload is for. */
export type UploadKind = (typeof uploadKinds)[number];
/** Each unit works on one kind of upload, for as long as it takes. */
export const workUnits: Readonly<Record<UploadKind, { readonly unit: string; readonly does: string }>> = {
  update: { unit: 'lineside-admin-update.service', does: 'an update is being installed' },
  restore: { unit: 'lineside-admin-restore.service', does: 'a backup is being restored' },
};

export interface AdminRequest {
  readonly verb: string;
  /** The caller's bearer token. */
  readonly token: string;
  readonly args: Readonly<Record<string, unknown>>;
}

/** One line of JSON. With `bytes`, so many bytes of a file follow it. */
export type AdminAnswer = { readonly done: unknown; readonly bytes?: number } | { readonly error: AdminFailure };
/** A line before the answer: now the helper takes the bytes of the upload. */
export const READY_LINE = '{"ready":true}\n';

export interface AdminFailure {
  readonly code: string;
  readonly message: string;
  readonly hint: string;
  readonly reasons: readonly string[];
}

interface AnyVerb<Args extends TObject> {
  readonly args: Args;
  /** It changes nothing and takes no data from the box: one line in the audit, before the answer, instead of two. */
  readonly reads?: true;
  /** Whether it is done also while a unit installs an update or restores a backup; default: if it only reads. */
  readonly besideWork?: boolean;
  /** What the audit has of the arguments. Default: all. */
  readonly noted?: (args: Static<Args>) => AdminRequest['args'];
}

/** Done by the helper itself, at once. */
interface OwnVerb<Args extends TObject = TObject> extends AnyVerb<Args> {
  readonly limitMs: number;
}

export interface CommandVerb<Args extends TObject = TObject> extends AnyVerb<Args> {
  readonly program: 'lineside' | 'systemctl';
  /** What follows the program. `file`: the path at which the helper expects the file that it sends, or has the upload. */
  readonly command: (args: Static<Args>, file: string) => readonly string[];
  /** For its standard input. */
  readonly input?: (args: Static<Args>) => string;
  /** The command reads no configuration, and has no option for it. */
  readonly withoutConfig?: true;
  readonly limitMs: number;
  /** The program prints its result as JSON; a file is sent; or there is nothing to answer. */
  readonly answer: 'json' | 'file' | 'nothing';
  /** Exit statuses beside 0 that are an answer, if it printed one. */
  readonly alsoGood?: readonly number[];
  /** What the audit adds to "done". */
  readonly did?: (done: unknown) => string;
  /** A file of `args.bytes` comes before the command, which checks it; its hash is added to the answer. */
  readonly uploads?: UploadKind;
  /** `args.confirm` has to be the name of the box. */
  readonly confirms?: true;
  /** The upload with the hash `args.sha256` is put where the unit expects it that the command starts. */
  readonly uses?: UploadKind;
  /** Goes on if the caller disconnects: it would be left half done, as a file that was changed and not reloaded. */
  readonly outlivesCaller?: true;
}

const exact = <P extends TProperties>(properties: P) => Type.Object(properties, { additionalProperties: false });
const nothing = exact({});
export const tokenName = Type.String({
  pattern: TOKEN_NAME,
  description: 'Name of the token: who uses it.',
  examples: ['ops'],
});

export const tokenSpec = exact({
  name: tokenName,
  roles: Type.Array(Type.Union(roles.map((role) => Type.Literal(role))), {
    minItems: 1,
    maxItems: roles.length,
    uniqueItems: true,
    description: 'What it may do.',
  }),
});

/** The text of the configuration file, with the marks of what is hidden, and the hash of the one that was read before. */
export const configurationText = {
  hash: Type.String({ pattern: '^[0-9a-f]{64}$', description: 'hash of the configuration that was read.' }),
  text: Type.String({ maxLength: MAX_TEXT_CHARS, description: 'The whole file, with its <hidden N>.' }),
};
const edited = {
  args: exact(configurationText),
  noted: ({ text }: { text: string }) => ({ chars: text.length }),
  input: ({ text }: { text: string }) => text,
  program: 'lineside',
  // The lock of the file has a limit of 30 s.
  limitMs: 40_000,
  answer: 'json',
} as const;

function changedKeys(done: unknown): string {
  const { live, hub, restart } = done as Readonly<Record<string, unknown>>;
  return [live, hub, restart]
    .flat()
    .filter((path) => typeof path === 'string')
    .join(' ');
}

const verb = <Args extends TObject>(declared: CommandVerb<Args>): CommandVerb<Args> => declared;
const ownVerb = <Args extends TObject>(declared: OwnVerb<Args>): OwnVerb<Args> => declared;
/** The lock of the tokens file has a limit of 30 s; a Raspberry Pi starts the command within 3. */
const TOKEN_LIMIT_MS = 40_000;

export const uploadSize = exact({
  bytes: Type.Integer({ minimum: 1, maximum: MAX_UPLOAD_BYTES, description: 'Size of the file.' }),
});

export const uploadHash = exact({
  sha256: Type.String({ pattern: '^[0-9a-f]{64}$', description: 'SHA-256 of the uploaded file, in hexadecimal.' }),
});

export const restoreArgs = exact({
  ...uploadHash.properties,
  confirm: Type.String({
    maxLength: 253,
    description: 'The name of the box, typed by the user.',
    examples: ['press-04'],
  }),
});

export const verbs = {
  'tokens.list': verb({
    args: nothing,
    reads: true,
    program: 'lineside',
    command: () => ['token', 'list', '--json'],
    limitMs: TOKEN_LIMIT_MS,
    answer: 'json',
  }),
  'tokens.add': verb({
    args: tokenSpec,
    besideWork: true,
    program: 'lineside',
    command: (args) => [
      'token',
      'add',
      '--json',
      ...args.roles.flatMap((role) => ['--role', role]),
      // A name may begin with "-".
      '--',
      args.name,
    ],
    limitMs: TOKEN_LIMIT_MS,
    answer: 'json',
  }),
  'tokens.revoke': verb({
    args: exact({ name: tokenName }),
    besideWork: true,
    program: 'lineside',
    command: (args) => ['token', 'revoke', '--json', '--keep-admin', '--', args.name],
    limitMs: TOKEN_LIMIT_MS,
    answer: 'nothing',
  }),
  'update.state': verb({
    args: nothing,
    reads: true,
    program: 'lineside',
    command: () => ['update', 'status', '--json'],
    withoutConfig: true,
    limitMs: 20_000,
    answer: 'json',
  }),
  /** Whether a file of this size can be uploaded now: an answer before the first byte. */
  'upload.check': ownVerb({ args: uploadSize, reads: true, besideWork: false, limitMs: 10_000 }),
  'update.upload': verb({
    args: uploadSize,
    uploads: 'update',
    program: 'lineside',
    command: (_, file) => ['update', 'check', '--json', file],
    withoutConfig: true,
    // 400 MiB are read at 2 MB/s.
    limitMs: 300_000,
    answer: 'json',
  }),
  /** Answered when the unit has begun: the hub reads how far it is. */
  'update.install': verb({
    args: uploadHash,
    uses: 'update',
    outlivesCaller: true,
    program: 'systemctl',
    command: () => ['start', workUnits.update.unit],
    limitMs: 60_000,
    answer: 'nothing',
  }),
  /** The box stops some seconds after the answer. */
  'update.try': verb({
    args: nothing,
    program: 'lineside',
    command: () => ['update', 'try', '--json'],
    withoutConfig: true,
    // A box that has just written 114 MB to its card starts programs slowly; past the limit it restarts all the same.
    limitMs: 60_000,
    answer: 'nothing',
  }),
  'restore.upload': verb({
    args: uploadSize,
    uploads: 'restore',
    program: 'lineside',
    command: (_, file) => ['restore', '--show', '--json', file],
    // As for an update.
    limitMs: 300_000,
    answer: 'json',
  }),
  /** Answered when the unit has begun, which stops the service. */
  'restore.begin': verb({
    args: restoreArgs,
    confirms: true,
    uses: 'restore',
    outlivesCaller: true,
    program: 'systemctl',
    command: () => ['start', workUnits.restore.unit],
    limitMs: 60_000,
    answer: 'nothing',
  }),
  /** Answered before the service stops: systemd has the job by then. */
  restart: verb({
    args: nothing,
    program: 'systemctl',
    command: () => ['--no-block', 'restart', 'lineside.service'],
    limitMs: 20_000,
    answer: 'nothing',
  }),
  doctor: verb({
    args: nothing,
    program: 'lineside',
    command: () => ['doctor', '--json'],
    // Above its own limit of 50 s.
    limitMs: 60_000,
    answer: 'json',
    // Something failed: the findings say what.
    alsoGood: [1],
  }),
  'support-bundle': verb({
    args: nothing,
    program: 'lineside',
    command: (_, file) => ['support-bundle', '--json', '--force', '--output', file],
    // Above its own limit of 120 s.
    limitMs: 140_000,
    answer: 'file',
  }),
  backup: verb({
    args: exact({ log: Type.Boolean() }),
    program: 'lineside',
    // Private keys leave the box on no network: root makes a backup with them on the box.
    command: ({ log }, file) => ['backup', '--json', '--no-keys', ...(log ? [] : ['--no-log']), file],
    // A log of 1 GiB is written twice and read back: 3 minutes on a slow card. Other verbs are refused meanwhile.
    limitMs: 900_000,
    answer: 'file',
  }),
  'configuration.read': verb({
    args: nothing,
    reads: true,
    program: 'lineside',
    command: () => ['config', 'show', '--json'],
    limitMs: 20_000,
    answer: 'json',
  }),
  'configuration.check': verb({
    ...edited,
    reads: true,
    command: ({ hash }) => ['config', 'change', '--json', '--dry-run', '--keep-paths', '--if-hash', hash, '-'],
    // There are faults: the answer has them.
    alsoGood: [2],
  }),
  /** Paths come from the box alone: what names one is changed there. */
  'configuration.change': verb({
    ...edited,
    outlivesCaller: true,
    command: ({ hash }) => ['config', 'change', '--json', '--keep-paths', '--if-hash', hash, '-'],
    did: changedKeys,
  }),
  'configuration.undo': verb({
    args: exact({ hash: configurationText.hash }),
    outlivesCaller: true,
    noted: () => ({}),
    program: 'lineside',
    command: ({ hash }) => ['config', 'undo', '--json', '--keep-paths', '--if-hash', hash],
    limitMs: edited.limitMs,
    answer: 'json',
    did: changedKeys,
  }),
  /** What administrators did, newest first. */
  audit: ownVerb({
    args: exact({
      limit: Type.Integer({ minimum: 1, maximum: 1_000 }),
      /** The id of the last one of the page before. */
      before: Type.Optional(Type.Integer({ minimum: 1 })),
      /** Also the verbs that only read. */
      reads: Type.Boolean(),
    }),
    reads: true,
    limitMs: 10_000,
  }),
} as const;

export type VerbName = keyof typeof verbs;
export type ArgsOf<Name extends VerbName> = Static<(typeof verbs)[Name]['args']>;

/** The verbs that a file comes with. */
export type UploadVerbName = {
  [Name in VerbName]: Name extends `${UploadKind}.upload` ? Name : never;
}[VerbName];

export type OwnVerbName = {
  [Name in VerbName]: (typeof verbs)[Name] extends { readonly command: unknown } ? never : Name;
}[VerbName];

export function verbOf(text: string): CommandVerb | OwnVerb | undefined {
  return Object.hasOwn(verbs, text)
    ? (verbs as unknown as Readonly<Record<string, CommandVerb | OwnVerb>>)[text]
    : undefined;
}
