/** Administration in a real browser, at the built product with its helper, which systemd's part is played to. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import type { ElementHandle } from 'puppeteer-core';
import { newRoot } from '../../src/appliance/update/update.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { MAIN, NODE, temporaryDirectory } from '../e2e/daemon.ts';
import { answerJson, assertAccessible, browserMissing, closePages, downloadsOf } from './browser.ts';
import { makeCard } from './card.ts';
import { type Product, startProduct } from './product.ts';

describe('the console: administration', { skip: browserMissing }, () => {
  const dir = temporaryDirectory();
  const socket = join(dir, 'admin.sock');
  const card =
    process.getuid?.() === 0
      ? makeCard(join(dir, 'state'), join(dir, 'lineside-work'), join(dir, 'etc/lineside.toml'))
      : undefined;
  let product: Product;
  let helper: ChildProcess;
  before(async () => {
    // A backup has the whole directory of the configuration.
    const data = { dir: join(dir, 'data'), runtime_dir: join(dir, 'run') };
    product = await startProduct({ http: { admin_socket: socket }, data }, join(dir, 'etc'));
    mkdirSync(join(dir, 'state'));
    const launcher = resolve(import.meta.dirname, '../e2e/activate.py');
    const service = [NODE, MAIN, 'admin-service', '--config', product.box.configFile];
    const words = ['/usr/bin/python3', launcher, '--on-demand', `admin=unix:${socket}`, '--', ...service];
    const [command, ...args] = card?.command(words) ?? words;
    helper = spawn(command ?? '', args, {
      env: { ...process.env, STATE_DIRECTORY: join(dir, 'state') },
      stdio: ['pipe', 'ignore', 'inherit'],
    });
    await until('the socket of the helper', () => existsSync(socket));
  });
  after(() => helper?.kill('SIGTERM'));
  afterEach(closePages);

  test('a token is added, shown once, used, and revoked; the last admin stays; the doctor is run; a bundle is saved', async () => {
    const opened = await product.enter('chief', '#/admin');
    await opened.sees(/clerk[\s\S]*reader, writer/);
    await opened.click('button', 'Add a token…');
    await opened.click('button', 'Add');
    await opened.sees('Choose a role', 'dialog');
    await opened.fill('Name', 'night-shift');
    const boxes = await opened.page.$$('dialog input[type=checkbox]');
    await boxes[0]?.click();
    await assertAccessible(opened, 'administration, adding a token');
    await opened.click('button', 'Add');
    await opened.sees(/Token of night-shift[\s\S]*lsd_/, 'dialog[open]');
    const [token = ''] = await opened.texts('dialog code');
    const whoami = () =>
      fetch(`http://${product.box.address}/api/v1/whoami`, { headers: { authorization: `Bearer ${token}` } });
    assert.deepEqual(await (await whoami()).json(), { name: 'night-shift', roles: ['viewer'] });
    await opened.click('button', 'Close');
    await opened.sees(/night-shift[\s\S]*viewer/, 'main');
    await opened.misses('lsd_', 'main');

    await opened.click('button', 'Revoke night-shift…');
    await opened.click('button', 'Revoke');
    await opened.sees('night-shift was revoked.');
    await until('it to be refused', async () => (await whoami()).status === 401);
    await opened.click('button', 'Revoke chief…');
    await opened.sees('you are signed out', 'dialog');
    await opened.click('button', 'Revoke');
    await opened.sees('"chief" is the last token with the role admin', 'dialog');
    await opened.click('button', 'Cancel');
    const audit = readFileSync(join(dir, 'state/audit.jsonl'), 'utf8');
    assert.match(
      audit,
      /"caller":"chief","verb":"tokens.add","args":\{"name":"night-shift","roles":\["viewer"\]\},"outcome":"done"/,
    );
    assert.ok(!audit.includes(token));
    await opened.click('button', 'Refresh');
    await opened.sees(
      /chief\s+tokens\.revoke\s+name: night-shift\s+done[\s\S]*tokens\.add\s+name: night-shift; roles: viewer/,
    );
    await opened.sees(/tokens\.revoke\s+name: chief\s+failed: CONFLICT/);
    await opened.misses('tokens.list', 'main');
    await opened.click('label', 'Also show what was only read');
    await opened.sees(/chief\s+tokens\.list\s+done/);

    await opened.click('button', 'Run the doctor');
    await opened.sees(/configuration\s+(ok|warning|failed)/, 'main');
    await assertAccessible(opened, 'administration');
    await opened.page.setViewport({ width: 390, height: 844 });
    await assertAccessible(opened, 'administration, phone');
    await opened.click('button', 'Get the support bundle');
    await opened.sees('The support bundle was given to the browser.');

    const downloads = await downloadsOf(opened);
    await opened.click('button', 'Get a backup');
    await opened.sees(/KiB were saved as .*\.backup\./, 'main');
    await until('the backup', () => readdirSync(downloads).some((name) => name.endsWith('.backup')));
    const [backup = ''] = readdirSync(downloads).filter((name) => name.endsWith('.backup'));
    const listed = execFileSync('tar', ['tf', join(downloads, backup)], { encoding: 'utf8' })
      .trim()
      .split('\n');
    assert.ok(listed.includes('hub/refdata.db') && listed.includes('line/log.db'), listed.join());
    assert.ok(!listed.includes('hub/webhooks.key'), listed.join());
    assert.deepEqual(readdirSync(join(dir, 'state')), ['audit.jsonl']);

    // Not the image: how it is updated.
    await opened.sees(/was not started from slots[\s\S]*sudo apt upgrade lineside/, 'main');

    const watcher = await product.enter('watcher', '#/admin');
    await watcher.find('link', 'Health');
    await watcher.misses('Admin');
  });

  test('an update is uploaded with progress, checked, installed into the other slot, and tried', {
    skip: card === undefined && 'needs root',
  }, async () => {
    if (card === undefined || helper.pid === undefined) return;
    card.insert(helper.pid);
    const left = () => readdirSync(join(dir, 'state')).filter((name) => name !== 'audit.jsonl');
    const opened = await product.enter('chief', '#/admin');
    await opened.sees('no update is on trial', 'main');
    const field = (await opened.find('field', 'Signed bundle')) as ElementHandle<HTMLInputElement>;
    await opened.click('button', 'Upload and check');
    await opened.sees('Choose a file first.', 'main');

    const other = join(dir, 'other.update');
    const forged = readFileSync(card.box.bundle());
    forged.write('version":"6', forged.indexOf('version":"1'));
    writeFileSync(other, forged);
    await field.uploadFile(other);
    await opened.click('button', 'Upload and check');
    await opened.sees('the bundle is not signed with the key that this box trusts', 'main .problem');
    assert.deepEqual(left(), []);

    await field.uploadFile(card.box.bundle());
    const slow = { upload: 1_000_000, download: 10_000_000, latency: 0 };
    await opened.page.emulateNetworkConditions(slow);
    await opened.click('button', 'Upload and check');
    await opened.sees(/[1-4]\.\d+ MiB of 5\.\d+ MiB/, 'main .progress');
    await assertAccessible(opened, 'administration, uploading');
    await opened.click('button', 'Cancel');
    await opened.find('button', 'Upload and check');
    await until('nothing to be left', () => left().length === 0);
    await opened.page.emulateNetworkConditions(null);

    await opened.click('button', 'Upload and check');
    await opened.sees(/The signature is good: version 1\.3\.0, made at .*slot b\./, 'main');
    await assertAccessible(opened, 'administration, an update to be installed');
    await opened.click('button', 'Install 1.3.0');
    await opened.sees('Version 1.3.0 is installed.', 'main');
    await opened.sees('an update in slot b is tried at the next start of the box', 'main');
    assert.ok(readFileSync(card.box.at('p3')).subarray(0, newRoot.length).equals(newRoot));
    await until('nothing to be left', () => left().length === 0);
    await opened.click('button', 'Restart the service…');
    await opened.click('button', 'Restart');
    await opened.sees('The service restarts.', 'main');
    assert.equal(card.calls().at(-1), '--no-block restart lineside.service');
    await opened.click('button', 'Restart the box…');
    await opened.click('button', 'Restart now');
    await opened.sees('The box restarts.', 'main');
    assert.equal(card.calls().at(-1), '--no-block reboot');
  });

  test('a backup is uploaded, shown, confirmed by the name of the box, and its restore is followed', {
    skip: card === undefined && 'needs root',
  }, async () => {
    if (card === undefined) return;
    const left = () => readdirSync(join(dir, 'state')).filter((name) => name !== 'audit.jsonl');
    const path = join(dir, 'box.backup');
    execFileSync(NODE, [MAIN, 'backup', '--no-log', path, '--config', product.box.configFile], { stdio: 'ignore' });
    const opened = await product.enter('chief', '#/admin');
    const field = (await opened.find('field', 'Backup file')) as ElementHandle<HTMLInputElement>;
    await field.uploadFile(product.box.configFile);
    await opened.click('button', 'Upload and show');
    await opened.sees(/The box has refused the file\s+the file is cut short/, 'main .problem');
    assert.deepEqual(left(), []);

    await field.uploadFile(path);
    await opened.click('button', 'Upload and show');
    await opened.sees(/The backup is whole[\s\S]*Serial log\s+not in it[\s\S]*in it, and not restored here/, 'main');
    await assertAccessible(opened, 'administration, a backup to be restored');
    await opened.page.setViewport({ width: 390, height: 844 });
    await assertAccessible(opened, 'administration, a backup to be restored, phone');
    await opened.click('button', 'Restore this backup…');
    await opened.sees('The serial log of the box stays.', 'dialog');
    await opened.click('button', 'Delete and restore');
    await opened.sees('Type the name of the box', 'dialog .fault');
    await opened.fill('Name of the box', 'another');
    await assertAccessible(opened, 'administration, confirm a restore');
    await opened.click('button', 'Delete and restore');
    await opened.sees('"another" is not the name of this box', 'dialog');
    assert.ok(!card.calls().includes('start lineside-admin-restore.service'));
    await opened.fill('Name of the box', hostname());
    await opened.click('button', 'Delete and restore');
    // Nothing stops the service here: the command finds it at work, and replaces nothing.
    await opened.sees(/The box could not do it[\s\S]*is in use: the service runs/, 'main .problem');
    await until('nothing to be left', () => left().length === 0);

    const state = { step: 'replacing', percent: 0, begunAt: '2026-03-01T09:30:00+00:00', error: '', hint: '' };
    let work: object = { ...state, state: 'running', result: '' };
    const watching = await product.enter('chief', '#/line');
    await watching.intercept(/\/admin\/work$/, (request) => answerJson(request, { update: null, restore: work }));
    await watching.show('#/admin');
    await watching.sees('the files are replaced: 0 %', 'main');
    await watching.misses('Upload and show', 'main');
    await assertAccessible(watching, 'administration, restoring');
    work = { ...state, state: 'done', result: 'box-7' };
    await watching.sees('The backup is restored: this box is box-7.', 'main');
  });

  test('the view shows which slot runs, an update that waits, its trial, and one that failed', async () => {
    const settled = {
      version: '1.3.0',
      running: 'a',
      onTrial: false,
      good: 'a',
      trying: null,
      triesLeft: 0,
      failed: null,
    };
    let state: object = settled;
    const opened = await product.enter('chief', '#/line');
    await opened.intercept(/\/api\/v1\/admin\/update$/, (request) => answerJson(request, state));
    for (const [change, shown] of [
      [{}, 'no update is on trial'],
      [{ trying: 'b', triesLeft: 3 }, 'an update in slot b is tried at the next start of the box'],
      [
        { running: 'b', trying: 'b', onTrial: true, triesLeft: 2 },
        'on trial: the box returns to slot a if it does not become healthy; starts left: 2',
      ],
      [{ failed: 'b' }, 'the update in slot b did not become healthy: the box returned to slot a'],
    ] as const) {
      state = { ...settled, ...change };
      await opened.show('#/admin');
      await opened.sees(shown, 'main');
      await opened.show('#/line');
    }
  });

  test('the configuration is read, its faults are shown by line and key, it is changed, and put back', async () => {
    const { configFile } = product.box;
    const before = readFileSync(configFile, 'utf8');
    writeFileSync(configFile, `${before}\n[broken]\npassword = "hunter2"\n`);
    const opened = await product.enter('chief', '#/admin');
    const text = (): Promise<string> => opened.valueOf(configFile);
    // Inserted as from the clipboard: typed letter by letter it would take seconds.
    const write = async (changed: string): Promise<void> => {
      await opened.fill(configFile, '');
      await opened.page.keyboard.sendCharacter(changed);
      await until('the text', async () => (await text()) === changed);
    };
    const marks = (): Promise<number | undefined> =>
      opened.page.$eval(
        'dialog .code',
        ({ shadowRoot }) => shadowRoot?.querySelectorAll('.cm-lint-marker-error').length,
      );
    // The helper does one thing at a time, and refuses what has waited too long for its turn.
    await opened.misses('Loading…', 'main');
    await opened.click('button', 'Read and change…');
    await opened.sees('1 part that may be a secret is hidden', 'dialog');
    assert.match(await text(), /\[broken\]\npassword = <hidden 1>\n$/);
    await opened.click('button', 'Check');
    await opened.sees(/There is 1 fault\.\s+Line \d+\s*broken no such section/, 'dialog');
    await assertAccessible(opened, 'configuration with a fault');

    const whole = (await text()).replace(/\n\[broken\][^]*/, '');
    await write(`${whole}[kafka]\npartitions = 4\n[log]\ncommit_ms = "soon"`);
    await opened.click('button', 'Check');
    await opened.sees(/Line \d+\s*log\.commit_ms must be a whole number from 10 to 60000, not "soon"/, 'dialog');
    await until('the mark of the line', async () => (await marks()) === 1);
    // The line is selected: it is replaced by what is typed.
    await opened.click('button', /Line \d+/);
    await opened.page.keyboard.type('commit_ms = 500');
    await opened.misses('There is 1 fault', 'dialog');
    await opened.click('button', 'Check');
    await opened.sees(
      /There is no fault\.\s+Applies at once: log\.commit_ms\s+The hub restarts for: kafka\.partitions/,
      'dialog',
    );
    assert.match(readFileSync(configFile, 'utf8'), /hunter2/, 'a check changes nothing');
    await opened.page.setViewport({ width: 390, height: 844 });
    await assertAccessible(opened, 'configuration, phone');

    // Somebody else is quicker.
    writeFileSync(configFile, before);
    await opened.click('button', 'Change the configuration');
    await opened.sees('the configuration file was changed since it was read', 'dialog');
    assert.equal(readFileSync(configFile, 'utf8'), before);
    await opened.click('button', 'Cancel');
    await opened.click('button', 'Discard');

    await opened.click('button', 'Read and change…');
    assert.equal(await text(), before);
    const after = `${before}\n[log]\ncommit_ms = 500\n[serial.line]\nparity = "even"`;
    await write(after);
    await opened.click('button', 'Check');
    await opened.click('button', 'Change the configuration');
    await opened.sees(
      /was changed\.\s+Applies at once: log\.commit_ms\s+Needs a restart of the service: serial\.line\.parity/,
    );
    assert.equal(readFileSync(configFile, 'utf8'), after);
    const needed = 'applied by a restart: serial.line.parity';
    await opened.misses(needed);
    process.kill(product.box.linePid, 'SIGHUP');
    await opened.sees(needed);
    await opened.click('button', 'Refresh');
    await opened.sees(/chief\s+configuration\.change\s+chars: \d+\s+done: log\.commit_ms serial\.line\.parity/);

    await opened.click('button', 'Put the previous file back…');
    await opened.click('button', 'Put it back');
    await opened.misses('The previous file replaces the present one');
    assert.equal(readFileSync(configFile, 'utf8'), before);
    process.kill(product.box.linePid, 'SIGHUP');
    await opened.misses(needed);
    assert.ok(!readFileSync(join(dir, 'state/audit.jsonl'), 'utf8').includes('hunter2'));
  });
});
