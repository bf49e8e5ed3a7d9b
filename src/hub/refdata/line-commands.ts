/** Commands to the line that were saved under a name: one list for the box, in refdata.db, replaced as a whole. */
import type { ExpectedVersion } from '../../shared/base/expected-version.ts';
import type { ChangeStore } from '../outbox/change-store.ts';
import { type LineCommand, type LineCommandList, MAX_COMMAND_BYTES } from './face.ts';
import { refuseFaults, requireVersion } from './rules.ts';

const list = 'the list of commands';

export class LineCommands {
  readonly #store: ChangeStore;
  readonly #read;
  readonly #write;

  constructor(store: ChangeStore) {
    this.#store = store;
    this.#read = store.connection.prepare<[], { version: number; items: string }>(
      'SELECT version, items FROM line_commands',
    );
    this.#write = store.connection.prepare<[number, string]>('UPDATE line_commands SET version = ?, items = ?');
  }

  list(): LineCommandList {
    return this.#now();
  }

  /** Throws INVALID_ARGUMENT with every fault, VERSION_REQUIRED, STALE_VERSION, and the errors of ChangeStore.commit. */
  async replace(
    by: string,
    items: readonly LineCommand[],
    expected: ExpectedVersion | undefined,
  ): Promise<LineCommandList> {
    refuseFaults('the commands cannot be saved', faultsOf(items));
    return this.#store.commit({ changedBy: by, changeReason: '' }, (change) => {
      const { version } = this.#now();
      requireVersion(list, version, expected);
      this.#write.run(version + 1, JSON.stringify(items));
      change.audit('line.commands_saved', 'line', { version: version + 1, commands: items.length });
      return { version: version + 1, items };
    });
  }

  #now(): LineCommandList {
    const { version, items } = this.#read.get() ?? { version: 1, items: '[]' };
    return { version, items: JSON.parse(items) as LineCommand[] };
  }
}

/** What a schema does not say: each name once, and bytes. */
function faultsOf(items: readonly LineCommand[]): string[] {
  const names = new Set<string>();
  return items.flatMap(({ name, data }, at) => {
    const isTaken = names.has(name);
    names.add(name);
    const bytes = Buffer.byteLength(data);
    return [
      ...(isTaken ? [`/items/${at}/name: there is a command "${name}" already`] : []),
      ...(bytes > MAX_COMMAND_BYTES
        ? [`/items/${at}/data: has ${bytes} bytes in UTF-8, more than ${MAX_COMMAND_BYTES}`]
        : []),
    ];
  });
}
