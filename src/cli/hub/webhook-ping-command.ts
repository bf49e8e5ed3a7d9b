/** webhook ping: a signed test delivery to a URL, and what came of it. */
import type { Command } from 'commander';
import { Fields } from '../connection/answers.ts';
import { apiPath } from '../connection/hub-client.ts';
import { exitStatus, usageFailure } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import { jsonLine } from '../output/json.ts';
import type { HubCall, Shell } from '../shell.ts';
import { readSecret, withSecretFile } from './webhook-secret.ts';
import { pingText } from './webhook-text.ts';

/** The service gives the URL up to webhooks.timeout_ms, and pings only a few at a time. */
const timeoutSeconds = 70;

interface PingOptions {
  readonly secretFile?: string;
}

export function addPing(webhook: Command, shell: Shell): void {
  const command = webhook
    .command('ping')
    .argument('<url>', 'where to: https')
    .description('post a signed test delivery to a URL, registered or not; status 1 when it is not accepted');
  shell.hub<PingOptions>(withSecretFile(command), {
    what: ([url = '']) => `cannot ping ${safeText(url)}`,
    timeoutSeconds,
    run: ping,
  });
}

async function ping(call: HubCall<PingOptions>, [url = '']: readonly string[]): Promise<number> {
  const { secretFile } = call.options;
  if (secretFile === undefined)
    throw usageFailure('there is no secret', 'Give --secret-file FILE, or - for standard input.');
  const secret = await readSecret(call, secretFile);
  const hub = await call.hub();
  const answer = await hub.write('POST', apiPath('admin', 'webhooks', 'test-ping'), { url, secret });
  const result = new Fields(answer, 'the result');
  const text = pingText(result, call.out.width);
  await call.out.write(call.json ? jsonLine(answer) : text);
  return result.truth('success') ? exitStatus.ok : exitStatus.refused;
}
