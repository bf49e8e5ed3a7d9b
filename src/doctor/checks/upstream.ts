/** Check of the serial log's way to the central side: a collector is called as the hub calls it, and asked for a position. */

import { ClientError, Status } from 'nice-grpc';
import { isPlainLink, openCollector } from '../../hub/upstream/collector-channel.ts';
import type { Config } from '../../shared/config/config.ts';
import { type Finding, failed, ok, skipped } from '../check.ts';
import { type Check, type CheckContext, type ConfiguredContext, configured, readNamedFile } from '../check-context.ts';
import { calledHosts } from './network.ts';
import { authoritiesOf, isReached, type Peer, reach } from './tls-peer.ts';

const answerLimitMs = 5_000;

const collectorPeer: Peer = {
  who: 'the collector',
  address: 'upstream.collector',
  authorities: 'upstream.collector_ca_file',
  protocol: 'upstream.collector and upstream.collector_insecure',
};

export const upstreamCheck: Check = { name: 'upstream', title: 'upstream', run: configured(checkUpstream) };

async function checkUpstream(context: ConfiguredContext): Promise<Finding[]> {
  const { config } = context;
  const { to, topic, collector, collectorCaFile } = config.upstream;
  if (to === 'off') return [skipped('the serial log stays on the box (upstream.to)')];
  if (to === 'kafka') return [ok(`the serial log goes to topic ${topic} of the broker: see broker`)];
  const [host] = calledHosts(context).filter(({ key }) => key === 'upstream.collector');
  if (host === undefined || collector === '')
    return [failed('upstream.collector is empty', 'Name the collector, "host:port".')];
  const isPlain = isPlainLink(config.upstream);
  const authorities = isPlain ? undefined : await authoritiesOf(collectorPeer, collectorCaFile);
  if (authorities !== undefined && !Buffer.isBuffer(authorities)) return [authorities];
  const reached = await reach(context, collectorPeer, host, authorities);
  if (!isReached(reached)) return [reached];
  return [reached, await ask(context, config, isPlain, collectorCaFile === '' ? undefined : authorities)];
}

/** The token is tried: a position is asked for, of a log that there is not. */
async function ask(context: CheckContext, config: Config, isPlain: boolean, ca: Buffer | undefined): Promise<Finding> {
  const token = await tokenOf(config);
  if (typeof token !== 'string') return token;
  const over = new AbortController();
  const limit = context.clock.timer(answerLimitMs, () => over.abort());
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

const refusals: Readonly<Record<string, readonly [found: string, todo: string]>> = {
  late: [`the collector does not answer within ${answerLimitMs / 1000} s`, 'Tell who runs the collector.'],
  UNAUTHENTICATED: [
    'the collector refuses the token',
    'Put the token that it knows into the file of upstream.collector_token_file.',
  ],
  PERMISSION_DENIED: ["the collector says that the token is another box's", 'Give this box a token of its own.'],
  UNIMPLEMENTED: ['what listens there is no collector', 'Check upstream.collector.'],
};

/** `how`: the status of its answer; "late": there was none. */
export function judgeCollector(how: string): Finding {
  const [found, todo] = refusals[how] ?? [
    `the collector answers ${how || 'with a failure'}`,
    'Tell who runs the collector.',
  ];
  return failed(found, todo);
}

async function tokenOf({ upstream }: Config): Promise<string | Finding> {
  if (upstream.collectorTokenFile === '') return '';
  const what = "the collector's token, and so the login,";
  const read = await readNamedFile('upstream.collector_token_file', upstream.collectorTokenFile, what);
  if (!Buffer.isBuffer(read)) return read;
  const token = read.toString('utf8').trim();
  return /^[A-Za-z0-9._~+/=-]{1,4096}$/.test(token)
    ? token
    : failed('the file of upstream.collector_token_file holds no token', 'Put the token there, and nothing else.');
}
