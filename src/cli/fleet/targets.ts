/**
 * fleet targets: scrape configurations for Prometheus. Its service discovery carries no CA for a target, so each TLS setting is a job
 * of its own. GET /metrics needs no token, so the file holds no secret.
 */
import type { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { Readable } from 'node:stream';
import { messageOf } from '../../shared/base/errors.ts';
import { type Entry, type Given, option } from '../command.ts';
import { connectOnce, tlsOptions, unreachableBy } from '../connection/diagnose.ts';
import { endpointText, hostFor, hubFace, type Profile, type TlsMaterial, tcpEndpoint } from '../connection/endpoint.ts';
import { connectMs, type TcpEndpoint, tlsMaterial } from '../connection/secrets.ts';
import { CliFailure, exitStatus } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import { counted } from '../output/numbers.ts';
import { writeWhole } from '../output/whole-file.ts';
import type { Call } from '../shell.ts';
import { boxOptions, chosenBoxes } from './boxes.ts';
import { runFleet } from './fleet-run.ts';

const options = [
  ...boxOptions,
  option('-o, --output <file>', 'where to (-: standard output); the file is replaced when all is known', {
    usual: '-',
  }),
] as const;

export const targetsCommand: Entry = {
  command: 'fleet targets',
  help: 'write scrape configurations for Prometheus: each box with its own CA',
  options,
  notes: `For scrape_config_files of prometheus.yml (Prometheus 2.53 or later). A box whose profile has a fingerprint is asked for its
certificates, by a TLS handshake alone. If one box cannot be used, nothing is written, and each such box is named. Labels: job is
lineside, instance is the name of the profile, tag_KEY is the value of a tag. The file holds no secret. Write it again, and reload
Prometheus, after a profile or a CA has changed.`,
  examples: [
    'lineside fleet targets --all -o /etc/prometheus/lineside-boxes.yml',
    'lineside fleet targets --tag line=3 | less',
  ],
  on: 'here',
  what: 'write the targets',
  run: writeTargets,
};

/** The fields of a scrape configuration in which boxes differ. */
interface Connection {
  readonly scheme: 'http' | 'https';
  readonly tls_config?: TlsConfig;
}

interface TlsConfig {
  readonly ca?: string;
  readonly server_name?: string;
}

interface Scrape {
  readonly connection: Connection;
  readonly target: string;
  readonly labels: Readonly<Record<string, string>>;
}

/** Handshakes at the same time. */
const parallel = 8;

async function writeTargets(call: Call<Given<typeof options>>): Promise<number> {
  const profiles = new Map([...(await chosenBoxes(call))].sort(([a], [b]) => (a < b ? -1 : 1)));
  const boxes = [...profiles.keys()];
  const found = new Map<string, Scrape>();
  const faults = new Map<string, string>();
  const plan = { boxes, canaries: 0, waveSize: boxes.length, parallel, stopAfter: boxes.length + 1 };
  await runFleet(plan, call.stop, async (box) => {
    try {
      found.set(box, await scrapeOf(box, profiles.get(box) as Profile));
    } catch (error) {
      faults.set(box, faultText(error));
    }
    return !faults.has(box);
  });
  call.stop.throwIfAborted();
  const reasons = boxes.flatMap((box) => (faults.has(box) ? [`${box}: ${faults.get(box)}`] : []));
  if (reasons.length > 0) {
    const why = `${reasons.length} of ${counted(boxes.length, 'box', 'boxes')} cannot be used`;
    const next = 'Nothing was written. To leave boxes out, name the others: --boxes FILE.';
    throw new CliFailure('refused', 'BOXES', why, { next, reasons });
  }
  const text = scrapeText(boxes.map((box) => found.get(box) as Scrape));
  const { output } = call.options;
  if (output !== '-') {
    await writeWhole(output, Readable.from([text]));
    return call.print({ file: output, boxes }, `${safeText(output)}: ${counted(boxes.length, 'box', 'boxes')}`);
  }
  await call.out.write(text);
  return exitStatus.ok;
}

function faultText(error: unknown): string {
  const what = error instanceof CliFailure && error.what !== '' ? `${error.what}: ` : '';
  return what + messageOf(error);
}

async function scrapeOf(box: string, profile: Profile): Promise<Scrape> {
  const endpoint = tcpEndpoint(hostFor(hubFace, profile), hubFace, {}, { base: profile, profile });
  const tls = await tlsMaterial(endpoint, hubFace);
  const connection: Connection =
    tls === undefined ? { scheme: 'http' } : { scheme: 'https', tls_config: await tlsConfig(endpoint, tls) };
  return { connection, target: endpointText(endpoint), labels: labelsOf(box, profile) };
}

async function tlsConfig(endpoint: TcpEndpoint, tls: TlsMaterial): Promise<TlsConfig> {
  const ca = tls.ca === undefined ? undefined : certificatesIn(tls.ca, endpoint.tls?.ca ?? '');
  const name = tls.isPinned ? await nameFor(endpoint, tls) : tls.serverName;
  return { ...(ca === undefined ? {} : { ca }), ...(name === undefined ? {} : { server_name: name }) };
}

/** Only the certificates: the file of a profile may hold a key as well. */
function certificatesIn(pem: Buffer, file: string): string {
  const found = pem.toString('latin1').match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g);
  if (found !== null) return `${found.join('\n')}\n`;
  throw new CliFailure('refused', 'NO_CERTIFICATE', 'it holds no certificate (PEM)', { what: `cannot use ${file}` });
}

/** A fingerprint stands for any name, but Prometheus always compares one; undefined: the host of the profile is in the certificate. */
async function nameFor(endpoint: TcpEndpoint, tls: TlsMaterial): Promise<string | undefined> {
  const { host } = endpoint;
  let leaf: X509Certificate | undefined;
  try {
    leaf = await connectOnce(endpoint, tlsOptions(tls, hubFace), connectMs, (socket) =>
      socket.getPeerX509Certificate(),
    );
  } catch (error) {
    throw unreachableBy({ endpoint, face: hubFace, tls }, error);
  }
  // Prometheus reads no common name.
  const isFor = isIP(host) === 0 ? leaf?.checkHost(host, { subject: 'never' }) : leaf?.checkIP(host);
  if (isFor !== undefined) return undefined;
  const [, name] = /(?:DNS|IP Address):([^,*"]+)(?:,|$)/.exec(leaf?.subjectAltName ?? '') ?? [];
  if (name !== undefined) return name;
  throw new CliFailure('refused', 'NO_NAME', 'its certificate has no name that Prometheus could compare');
}

/** Prefixed, as a tag may be called like a label of a metric. Keys that become one label keep all their values. */
function labelsOf(box: string, { tags = [] }: Profile): Scrape['labels'] {
  const labels = new Map([
    ['job', 'lineside'],
    ['instance', box],
  ]);
  for (const tag of tags) {
    const [key = '', value = ''] = tag.split('=');
    const label = `tag_${key.replaceAll(/\W/g, '_')}`;
    const before = labels.get(label);
    labels.set(label, before === undefined ? value : `${before},${value}`);
  }
  return Object.fromEntries(labels);
}

/** JSON, which is YAML too. Jobs are named after their first box. */
function scrapeText(scrapes: readonly Scrape[]): string {
  const jobs = [...Map.groupBy(scrapes, ({ connection }) => JSON.stringify(connection)).values()];
  const scrape_configs = jobs.map((of) => ({
    job_name: `lineside/${of[0]?.labels['instance']}`,
    ...of[0]?.connection,
    static_configs: of.map(({ target, labels }) => ({ targets: [target], labels })),
  }));
  return `# Made by lineside fleet targets.\n${JSON.stringify({ scrape_configs }, null, 2)}\n`;
}
