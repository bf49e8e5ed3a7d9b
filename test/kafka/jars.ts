/**
 * Apache Kafka's jars, brought by Maven into .cache/kafka and held to the hashes of scripts/kafka.sha256 each time they
 * are used. What a machine lacks for that is said by name.
 */
import { execFile, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

const ROOT = resolve(import.meta.dirname, '../..');
const POM = join(ROOT, 'scripts/kafka.pom.xml');
const HASHES = join(ROOT, 'scripts/kafka.sha256');
const CACHE = join(ROOT, '.cache/kafka');
const MAVEN_LIMIT_MS = 180_000;
const JAVA_AT_LEAST = 17;

const run = promisify(execFile);

/** The class path; a string beginning with "SKIPPED" never: what is missing is thrown as Missing. */
export class Missing extends Error {
  override readonly name = 'Missing';
}

/** Directory of the jars. Throws Missing where they cannot be had, and another error when they are not the pinned ones. */
export async function kafkaJars(): Promise<string> {
  await needJava();
  const hashes = readFileSync(HASHES, 'utf8');
  const pinned = hashes.trim().split('\n').length;
  const dir = join(CACHE, createHash('sha256').update(hashes).digest('hex').slice(0, 16));
  if (!existsSync(dir)) {
    mkdirSync(CACHE, { recursive: true });
    const fresh = mkdtempSync(join(CACHE, 'new-'));
    try {
      await fetchJars(fresh);
      verify(fresh, pinned);
      put(fresh, dir);
    } finally {
      rmSync(fresh, { recursive: true, force: true });
    }
  }
  verify(dir, pinned);
  return dir;
}

/** Another process may have been faster: its files are the same, and the directory is renamed into place whole or not at all. */
function put(fresh: string, dir: string): void {
  try {
    renameSync(fresh, dir);
  } catch (error) {
    if (!existsSync(dir)) throw error;
  }
}

async function needJava(): Promise<void> {
  const { stderr } = await run('java', ['-version']).catch(() => {
    throw new Missing('Java is not installed');
  });
  const major = Number(/version "(\d+)/.exec(stderr)?.[1]);
  if (!(major >= JAVA_AT_LEAST)) throw new Missing(`Java ${JAVA_AT_LEAST} or later is not installed`);
}

async function fetchJars(dir: string): Promise<void> {
  const goal = ['dependency:copy-dependencies', `-DoutputDirectory=${dir}`];
  await run('mvn', ['-v']).catch(() => {
    throw new Missing('Maven is not installed');
  });
  try {
    // One at a time: two Mavens that fill the same empty repository spoil each other's files. The second finds all there.
    const alone = [join(CACHE, 'lock'), 'mvn', '-q', '-B', '-f', POM, ...goal];
    await run('flock', alone, { timeout: 2 * MAVEN_LIMIT_MS });
  } catch (error) {
    const said = String((error as { stdout?: unknown }).stdout ?? error);
    throw new Missing(`Maven could not fetch Apache Kafka: ${/\[ERROR\] (.*)/.exec(said)?.[1] ?? said}`);
  }
}

/** Exactly the pinned files, to the byte. */
function verify(dir: string, pinned: number): void {
  const args = ['--check', '--strict', '--quiet', HASHES];
  const { status, stdout, stderr } = spawnSync('sha256sum', args, { cwd: dir, encoding: 'utf8' });
  const there = readdirSync(dir).length;
  if (status === 0 && there === pinned) return;
  const found = `${there} files of ${pinned} in ${dir}: ${stdout}${stderr}`;
  throw new Error(`not the pinned Apache Kafka (scripts/kafka.sha256): ${found}`);
}
