/** Check of the serial log's way to the central side: a collector is called as the hub calls it, and asked for a position. */

import { ClientError, Status } from 'nice-grpc';
import { openCollector } from '../../hub/upstream/collector-channel.ts';
import type { Config } from '../../shared/config/config.ts';
import { isLoopback } from '../../shared/config/listen.ts';
import { type Finding, failed, needsRoot, ok, skipped } from '../check.ts';
import { fileBehind, type Place } from '../check-context.ts';
import { readSafely } from '../safe-files.ts';
import { wordsOf } from './certificates.ts';
import { calledHosts } from './network.ts';
import { authoritiesOf, type Peer, reach } from './tls-peer.ts';

const answerLimitMs = 5_000;

const collectorPeer: Peer = {
  who: 'the collector',
  address: 'upstream.collector',
  authorities: 'upstream.collector_ca_file',
  protocol: 'upstream.collector and upstream.collector_insecure',
};

export async function checkUpstream(place: Place): Promise<Finding[]> {
  const { config } = place;
  if (config === undefined) return [];
  const { to, topic, collector, collectorInsecure, collectorCaFile } = config.upstream;
  if (to === 'off') return [skipped('the serial log stays on the box (upstream.to)')];
  if (to === 'kafka') return [ok(`the serial log goes to topic ${topic} of the broker: see broker`)];
  const [host] = calledHosts(place).filter(({ key }) => key === 'upstream.collector');
  if (host === undefined || collector === '')
    return [failed('upstream.collector is empty', 'Name the collector, "host:port".')];
  const isPlain = collectorInsecure || (collectorCaFile === '' && isLoopback(host.host));
  const authorities = isPlain ? undefined : await authoritiesOf(place, collectorPeer, collectorCaFile);
  if (authorities !== undefined && !Buffer.isBuffer(authorities)) return [authorities];
  const findings = await reach(place, collectorPeer, host, authorities);
  if (findings.some(({ state }) => state !== 'ok' && state !== 'warning')) return findings;
  return [...findings, await ask(place, config, isPlain, collectorCaFile === '' ? undefined : authorities)];
}

/** The token is tried: a position is asked for, of a log that there is not. */
async function ask(place: Place, config: Config, isPlain: boolean, ca: Buffer | undefined): Promise<Finding> {
  const token = await tokenOf(config);
  if (typeof token !== 'string') return token;
  const over = new AbortController();
  const limit = place.clock.timer(answerLimitMs, () => over.abort());
  const channel = openCollector(config.upstream.collector, { isPlain, ca, token }, false);
  try {
    const asked = { deviceId: config.device.id, logId: 'doctor' };
    await channel.client.getPosition(asked, { signal: over.signal, metadata: channel.metadata(token) });
    return ok('the collector answers, and takes the token');
  } catch (error) {
    if (over.signal.aborted) return judgeCollector('late');
    return judgeCollector(error instanceof ClientError ? (Status[error.code] ?? '') : '');
  } finally {
    limit.cancel();
    channel.close();
  }
}

/** By the name of the gRPC status, or 'late'. */
export function judgeCollector(how: string): Finding {
  switch (how) {
    case 'late':
      return failed(`the collector does not answer within ${answerLimitMs / 1000} s`, 'Tell who runs the collector.');
    case 'UNAUTHENTICATED':
      return failed(
        'the collector refuses the token',
        'Put the token that it knows into the file of upstream.collector_token_file.',
      );
    case 'PERMISSION_DENIED':
      return failed("the collector says that the token is another box's", 'Give this box a token of its own.');
    case 'UNIMPLEMENTED':
      return failed('what listens there is no collector', 'Check upstream.collector.');
    default:
      return failed(`the collector answers ${how || 'with a failure'}`, 'Tell who runs the collector.');
  }
}

async function tokenOf({ upstream }: Config): Promise<string | Finding> {
  if (upstream.collectorTokenFile === '') return '';
  const read = await readSafely(fileBehind('upstream.collector_token_file', upstream.collectorTokenFile));
  if (read.kind === 'denied') return needsRoot("the collector's token, and so the login,");
  if (read.kind !== 'text')
    return failed(`the file of upstream.collector_token_file cannot be read: ${wordsOf(read)}`, 'Correct the path.');
  const token = read.bytes.toString('utf8').trim();
  return /^[A-Za-z0-9._~+/=-]{1,4096}$/.test(token)
    ? token
    : failed('the file of upstream.collector_token_file holds no token', 'Put the token there, and nothing else.');
}
