/**
 * The power cut after each flush: lives of a box on emulated hardware under load, every write to its card recorded, and the
 * card looked into as it was after each flush, and with a part of what was written since.
 */
import { join } from 'node:path';
import { newToken } from '../../src/shared/auth/tokens.ts';
import { QemuBox } from '../image/box.ts';
import { writeCard } from '../image/card.ts';
import { CardRecording, Load } from '../image/pulled-plug.ts';
import { grpcClient, HttpClient } from '../image/remote.ts';
import { seeded } from './random.ts';

/** Boot partition and slots take 1,556 MiB; the rest is data. */
const CARD_MIB = 1_700;
/** Each life begins with a start, which is recorded too. */
const LIFE_MS = 60_000;

/** Until so many states of the card are checked. */
export async function cardStates(dir: string, states: number, seed: number, say: (line: string) => void) {
  const random = seeded(seed);
  const token = newToken();
  const card = join(dir, 'card.img');
  const box = await QemuBox.create({ dir: join(dir, 'box'), card });
  const roles = '["operator", "admin", "writer", "reader"]';
  writeCard(
    card,
    {
      'setup.toml': `[ssh]\nkeys = ["${box.publicKey}"]\n[[token]]\nname = "laptop"\nroles = ${roles}\ntoken = "${token}"\n`,
    },
    CARD_MIB * 1024 * 1024,
  );
  await box.start();
  await box.ready();
  const authority = await box.ssh('cat /etc/lineside/tls/ca.crt');
  const load = new Load(random);
  const connect = () => ({ client: grpcClient(box, authority, token), http: new HttpClient(box, authority, token) });
  const first = connect();
  await load.begin(first.client, first.http, '/dev/ttyAMA0');
  await load.until(box, first.client, first.http, random.between(1_000, 5_000));
  let [lives, looked, torn] = [0, 0, 0];
  try {
    while (looked < states) {
      const recording = new CardRecording(box, join(dir, 'states'));
      await box.start(recording.begin());
      await box.ready();
      const { client, http } = connect();
      await load.check(client, http);
      await load.until(box, client, http, LIFE_MS);
      const seen = recording.look(1, () => random.between(0, 999) / 1000);
      [lives, looked, torn] = [lives + 1, looked + seen.looked, torn + seen.torn];
      say(`life ${lives}: ${JSON.stringify(seen)}; ${looked} of ${states} states checked`);
    }
    return { lives, looked, torn, records: load.records };
  } finally {
    await box.kill();
  }
}
