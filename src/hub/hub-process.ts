/** Composition root of the hub: builds its parts from one Config, starts them in order and stops them in reverse. */
import { statfsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { TokenReader } from '../shared/auth/token-reader.ts';
import { systemClock } from '../shared/base/clock.ts';
import { holdDataDirectory, makeDirectory } from '../shared/base/data-directory.ts';
import { LinesideError, messageOf } from '../shared/base/errors.ts';
import { limitHeapGrowth, releaseAfterStartMs, releaseMemory } from '../shared/base/memory.ts';
import type { Config } from '../shared/config/config.ts';
import { createClockSync } from '../shared/host/clock-sync.ts';
import type { Check } from '../shared/host/health-report.ts';
import { httpAnswers, probedAddress } from '../shared/host/probe.ts';
import { type OnStop, type ServiceProcess, type ServiceStart, startParts } from '../shared/host/service-process.ts';
import { hubStatus } from '../shared/host/status-text.ts';
import { promisedSockets } from '../shared/host/systemd-sockets.ts';
import { createHostTelemetry, type HostTelemetry } from '../shared/host/telemetry.ts';
import { connectLine, type LineClient } from '../shared/line-client/line-client.ts';
import { closeQuietly, type Migrations } from '../shared/storage/open.ts';
import { afterTrial, bringUp, isSlotOnTrial, onTrial, partsOnTrial } from './bring-up.ts';
import { openBroker, topicOf } from './brokers.ts';
import { Consumers } from './consumers.ts';
import type { CertificateFile } from './health/certificates.ts';
import { startWatch, type Watch, type WatchOptions } from './health/watch.ts';
import { History, type HistoryOptions } from './history/history.ts';
import { type HttpParts, type HttpServer, startHttpServer } from './http/server.ts';
import type { UpstreamParts } from './log-shipping.ts';
import { hubMigrations } from './migrations.ts';
import { Admin } from './outbox/admin.ts';
import { type ChangeStore, openChangeStore } from './outbox/change-store.ts';
import type { Scope } from './outbox/event.ts';
import { Publisher, type PublisherOptions } from './outbox/publisher/publisher.ts';
import { openRefdataFile, refdataFileName } from './outbox/refdata-file.ts';
import { openRefdata, type Refdata } from './refdata/refdata.ts';
import type { Shipper } from './upstream/shipper.ts';
import { openWebhooks, type Webhooks } from './webhooks/webhooks.ts';

/** After its limit the broker's client is released within a second, and acknowledgements are written. */
const AFTER_STOP_MS = 6_000;
/** Beside the bundle that runs; there is none beside the sources. */
const consoleDir = fileURLToPath(new URL('./console', import.meta.url));
/** A batch of the serial log takes about a second; a batch that does not arrive is sent again after the start. */
const UPSTREAM_STOP_MS = 2_000;
/** The planner's last commit and the dispatcher's, each on a slow card. */
const WEBHOOKS_STOP_MS = 10_000;

/**
 * Throws CONFLICT if another hub uses the same data, and the errors of openRefdataFile. Its stop ends requests, gives messages in
 * flight to the broker outbox.stop_grace_ms, closes the file.
 */
export function startHub(start: ServiceStart, before: Partial<Before> = {}): Promise<ServiceProcess> {
  const { migrations = hubMigrations, isOnTrial = isSlotOnTrial } = before;
  return startParts(start.logger, (onStop) => build(start, { migrations, isOnTrial }, onStop));
}

interface Before {
  readonly migrations: Migrations;
  /** The running slot is on trial. */
  readonly isOnTrial: () => boolean;
}

async function build(start: ServiceStart, before: Before, onStop: OnStop): Promise<Omit<ServiceProcess, 'stop'>> {
  const { config, logger, version, stage } = start;
  limitHeapGrowth();
  const { dir, runtimeDir } = config.data;
  const clock = systemClock;
  const release = await holdDataDirectory(dir, 'hub');
  onStop({ what: 'lock', stop: async () => release() });
  await makeDirectory('data.runtime_dir', runtimeDir);

  stage('checking refdata.db');
  if (!(await bringUp(start, before.migrations, before.isOnTrial)))
    return buildOnTrial(start, before.isOnTrial, onStop);
  const store = openStore(start, onStop);
  const path = join(dir, refdataFileName);
  const { maxImportBytes } = config.http;
  const refdata = openRefdata({ store, path, maxBytes: config.outbox.maxBytes, maxImportBytes, clock, logger });

  const tokens = new TokenReader(config.auth.tokensFile, clock, logger);
  const { webhooks, consumers } = await prepareWebhooks(start, store, tokens, onStop);

  stage('starting');
  const broker = await openBroker(config, clock, logger);
  const topic = (scope: Scope): string => topicOf(config, scope);
  const keepAbove = (): number => webhooks.keepAbove();
  const publisher = startPublisher(start, { store, broker, topicOf: topic, keepAbove }, onStop);
  // Stopped before the publisher: while an import holds the write slot, acknowledgements cannot be marked.
  onStop({ what: 'imports', stop: () => refdata.close() });

  const outbox = new Admin({ store, publisher, broker, topicOf: topic, clock });
  const { admin } = webhooks;
  const line = openLine(start, onStop);
  const { host, history } = startTelemetry(start, line, onStop);
  const upstream = await openUpstream(start, line, { publisher, broker }, onStop);
  let http: HttpServer | undefined;
  const hubFaults: WatchOptions['hubFaults'] = () => ({
    configurationRefused: start.configurationRefused(),
    listenerFault: http?.faults().join('; ') ?? '',
  });
  const sources = [outbox, admin, host, ...(upstream ? [upstream] : [])];
  const watch = watchAll(start, { client: line, hubFaults, sources }, onStop);
  const { id: deviceId } = config.device;
  const own = { config, deviceId, host, history, watch, tokens, clock, logger, version };
  const parts = { ...own, refdata, outbox, webhooks: admin };
  const serving = await startHttpServer({
    ...parts,
    line,
    consoleDir,
    ...(upstream && { upstream }),
    ...views(store, config),
  });
  http = serving;
  onStop({ what: 'HTTP', stop: () => serving.stop() });
  // Events wait to be planned until the consumers are known.
  void consumers.known.then(() => webhooks.start());

  if (config.device.inventory && line !== undefined) await startFacts(start, line, refdata, onStop);
  const warn = (error: unknown): void => logger.warn('memory not released', { error: messageOf(error) });
  const collection = clock.timer(releaseAfterStartMs, () => void releaseMemory().catch(warn));
  onStop({ what: 'release of memory', stop: async () => collection.cancel() });
  const address = probedAddress(serving.listening);
  const checks: Check[] = [
    { name: 'the publisher', answers: () => publisher.assertAlive() },
    ...webhooks.loops.map(({ name, check }) => ({ name, answers: check })),
    { name: 'the import', answers: () => refdata.assertImportAlive() },
    ...(upstream ? [{ name: 'the shipper of the serial log', answers: () => upstream.assertAlive() }] : []),
    ...(address === undefined ? [] : [{ name: 'HTTP', answers: () => httpAnswers(address) }]),
  ];
  const status = (): string =>
    [...serving.faults(), ...historyFaults(history), statusOf(store, outbox, admin)].join('; ');
  return { addresses: serving.addresses, healthReport: { checks, status } };
}

/**
 * A hub that does not open refdata.db: what needs the file is answered with 503, and nothing is sent. The slot check keeps the slot
 * if it stays up, and then it is started again.
 */
async function buildOnTrial(
  start: ServiceStart,
  isOnTrial: () => boolean,
  onStop: OnStop,
): Promise<Omit<ServiceProcess, 'stop'>> {
  const { config, logger, version } = start;
  logger.warn('update on trial: refdata.db is migrated when the update is kept', {
    until: '503 for all that needs it',
  });
  const line = openLine(start, onStop);
  const serving = await startHttpServer({
    ...startTelemetry(start, line, onStop),
    config,
    deviceId: config.device.id,
    ...partsOnTrial(),
    trouble: onTrial,
    line,
    tokens: new TokenReader(config.auth.tokensFile, systemClock, logger),
    consoleDir,
    clock: systemClock,
    logger,
    version,
  });
  onStop({ what: 'HTTP', stop: () => serving.stop() });
  const endWait = afterTrial(isOnTrial, () => start.restart('the update was kept'));
  onStop({ what: 'wait for the trial', stop: async () => endWait() });
  const address = probedAddress(serving.listening);
  const checks = address === undefined ? [] : [{ name: 'HTTP', answers: () => httpAnswers(address) }];
  const status = (): string => [...serving.faults(), onTrial().message].join('; ');
  return { addresses: serving.addresses, healthReport: { checks, status } };
}

function startPublisher(
  { config, logger }: ServiceStart,
  parts: Pick<PublisherOptions, 'store' | 'broker' | 'topicOf' | 'keepAbove'>,
  onStop: OnStop,
): Publisher {
  const { stopGraceMs } = config.outbox;
  const publisher = new Publisher({
    ...parts,
    ...config.outbox,
    deviceId: config.device.id,
    clock: systemClock,
    logger,
  });
  publisher.start();
  onStop({ what: 'publisher', stop: () => publisher.stop(stopGraceMs), limitMs: stopGraceMs + AFTER_STOP_MS });
  return publisher;
}

function statusOf(store: ChangeStore, outbox: Admin, webhooks: Webhooks['admin']): string {
  const { rejected, failed } = webhooks.status();
  const { damage, full } = store.health();
  return hubStatus({ ...outbox.status(), review: rejected + failed, refusing: damage === '' ? full : damage });
}

function historyFaults(history: History): string[] {
  const { fault } = history.health();
  return fault === '' ? [] : [`HISTORY NOT STORED: ${fault}`];
}

function openStore({ config, logger }: ServiceStart, onStop: OnStop): ChangeStore {
  const { dir } = config.data;
  const { maxBytes, minFreeBytes } = config.outbox;
  const { connection, unchecked, setAside } = openRefdataFile(dir, hubMigrations);
  if (setAside !== '') {
    logger.error("refdata.db was another program's database: it was set aside and an empty one begun", {
      file: setAside,
    });
  }
  try {
    const options = { connection, unchecked, dir, maxBytes, minFreeBytes, clock: systemClock, logger };
    const store = openChangeStore(options);
    onStop({ what: 'refdata.db', stop: () => store.close() });
    return store;
  } catch (error) {
    closeQuietly(connection);
    throw error;
  }
}

/** Of the machine and the line. Slow measurements do not delay the start. */
function startTelemetry(
  { config, logger }: ServiceStart,
  line: LineClient | undefined,
  onStop: OnStop,
): { readonly host: HostTelemetry; readonly history: History } {
  const { dir } = config.data;
  const clock = systemClock;
  const clockSync = createClockSync({ file: config.device.timeSyncFile, clock });
  const host = createHostTelemetry({ dir, clockSync, clock, logger });
  void host.start();
  const askLine: HistoryOptions['askLine'] = async (signal) => {
    if (line === undefined) throw new LinesideError('NOT_CONNECTED', 'no address of the line is known');
    return line.line.getStatus({}, { signal });
  };
  const history = new History({ dir, askLine, host, clockSync, clock, logger });
  history.start();
  onStop({
    what: 'telemetry',
    stop: async () => {
      await history.stop();
      host.stop();
      clockSync.stop();
    },
  });
  return { host, history };
}

/** Not started: deliveries wait until the hub answers. */
async function prepareWebhooks(
  { config, logger, version }: ServiceStart,
  store: ChangeStore,
  tokens: TokenReader,
  onStop: OnStop,
): Promise<{ readonly webhooks: Webhooks; readonly consumers: Consumers }> {
  const clock = systemClock;
  const consumers = new Consumers(tokens, clock, logger);
  await consumers.start();
  onStop({ what: 'consumers', stop: () => consumers.stop() });
  const { maxBytes } = config.outbox;
  const otherRemotes = remotesOf(config);
  const webhooks = openWebhooks({
    ...config.webhooks,
    otherRemotes,
    maxBytes,
    store,
    consumers,
    version,
    clock,
    logger,
  });
  onStop({ what: 'webhooks', stop: () => webhooks.stop(), limitMs: WEBHOOKS_STOP_MS });
  return { webhooks, consumers };
}

/** "host:port" of the remote hosts besides the subscribers. */
function remotesOf({ kafka, upstream }: Config): readonly string[] {
  const collector = upstream.to === 'collector' ? [upstream.collector] : [];
  return [...kafka.bootstrap.split(','), ...collector].filter((address) => address !== '');
}

/** The store for /readyz and /metrics. */
function views(store: ChangeStore, { data, outbox }: Config): Pick<HttpParts, 'trouble' | 'storage'> {
  return {
    storage() {
      const { bavail, bsize } = statfsSync(data.dir);
      const { usedBytes, waitingChanges, damage, full } = store.health();
      const sizes = { usedBytes, waitingChanges, limitBytes: outbox.maxBytes, freeBytes: bavail * bsize };
      return { ...sizes, isDamaged: damage !== '', isFull: full !== '' };
    },
    trouble() {
      const { damage } = store.health();
      return damage === '' ? undefined : new LinesideError('STORAGE_DAMAGED', damage);
    },
  };
}

/** Shared by all parts that call the line. undefined: grpc.listen names no Unix socket. */
function openLine({ config, logger }: ServiceStart, onStop: OnStop): LineClient | undefined {
  const unix = config.grpc.listen.find((address) => address.kind === 'unix');
  if (unix === undefined) {
    logger.warn('the hub knows nothing of the line: grpc.listen names no Unix socket to ask it on');
    return undefined;
  }
  const client = connectLine(unix.path);
  onStop({ what: 'connection to the line', stop: async () => client.close() });
  return client;
}

function watchAll(
  { config, logger }: ServiceStart,
  watched: Pick<WatchOptions, 'client' | 'hubFaults' | 'sources'>,
  onStop: OnStop,
): Watch {
  const { tls, kafka, webhooks, upstream } = config;
  const certificates: readonly CertificateFile[] = [
    { key: 'tls.cert_file', file: tls.certFile, kind: 'chain' },
    { key: 'tls.client_ca_file', file: tls.clientCaFile, kind: 'authorities' },
    { key: 'kafka.ca_file', file: kafka.caFile, kind: 'authorities' },
    { key: 'webhooks.ca_file', file: webhooks.caFile, kind: 'authorities' },
    { key: 'upstream.collector_ca_file', file: upstream.collectorCaFile, kind: 'authorities' },
  ];
  const watch = startWatch({ ...watched, certificates, findClosedSockets, clock: systemClock, logger });
  onStop({ what: 'watch', stop: () => watch.stop() });
  return watch;
}

/** Only the service that systemd runs asks systemd. */
async function findClosedSockets(): Promise<readonly string[]> {
  if (process.env['INVOCATION_ID'] === undefined) return [];
  return ((await promisedSockets()) ?? []).filter(({ isOpen }) => !isOpen).map(({ unit }) => unit);
}

/** undefined: it is off. */
async function openUpstream(
  { config, logger }: ServiceStart,
  line: LineClient | undefined,
  events: Pick<UpstreamParts, 'publisher' | 'broker'>,
  onStop: OnStop,
): Promise<Shipper | undefined> {
  if (config.upstream.to === 'off' || line === undefined) return undefined;
  const { startUpstream } = await import('./log-shipping.ts');
  const upstream = await startUpstream({ config, line, ...events, clock: systemClock, logger });
  onStop({
    what: 'upstream',
    stop: () => upstream.stop(UPSTREAM_STOP_MS),
    limitMs: UPSTREAM_STOP_MS + AFTER_STOP_MS,
  });
  return upstream;
}

async function startFacts(
  { config, logger }: ServiceStart,
  client: LineClient,
  refdata: Refdata,
  onStop: OnStop,
): Promise<void> {
  const { DeviceFacts, factsOf } = await import('./device-facts/device-facts.ts');
  const look = factsOf(client, systemClock);
  const facts = new DeviceFacts({ look, refdata, deviceId: config.device.id, clock: systemClock, logger });
  onStop({ what: 'device facts', stop: () => facts.stop() });
}
