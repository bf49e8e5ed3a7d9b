/** The doctor beside systemd's units, by trees of files as the kernel shows them. */
import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { it, type TestContext } from 'node:test';
import { temporaryDirectory } from '../shared/base/temporary.fixture.ts';
import type { CheckContext } from './check-context.ts';
import { checkCertificates } from './checks/configuration.ts';
import { checkPermissions } from './checks/permissions.ts';
import { checkService } from './checks/service.ts';
import { contextIn, put, rootsIn, said } from './table.fixture.ts';

async function box(t: TestContext, config = ''): Promise<{ root: string; context: CheckContext }> {
  const root = temporaryDirectory(t);
  return { root, context: await contextIn(root, config, { isUnits: true, roots: rootsIn(root) }) };
}

it('no connection is made to the sockets of a unit that does not run: systemd would start it', async (t) => {
  const { root, context } = await box(t);
  mkdirSync(join(root, 'run'));
  put(root, 'sys/fs/cgroup/system.slice/lineside-hub.service/cgroup.procs', '');
  let callers = 0;
  for (const name of ['grpc.sock', 'http.sock']) {
    const server = createServer((socket) => {
      callers++;
      socket.destroy();
    });
    await new Promise<void>((resolve) => server.listen(join(root, 'run', name), resolve));
    t.after(() => server.close());
  }
  const findings = await said(checkService, context);
  assert.match(findings, /failed: lineside\.service does not run[^\n]*\nfailed: lineside-hub\.service does not run/);
  assert.equal(callers, 0);
  // The same sockets, had the units run.
  for (const unit of ['lineside', 'lineside-hub'])
    put(root, `sys/fs/cgroup/system.slice/${unit}.service/cgroup.procs`, '77\n');
  assert.match(await said(checkService, context), /ok: lineside\.service and lineside-hub\.service run/);
  assert.ok(callers > 0);
});

it("rights are judged for the units' own users, whether they run or not", async (t) => {
  const { root, context } = await box(t, '[kafka]\nca_file = "/dev/null"');
  mkdirSync(join(root, 'data'), { mode: 0o700 });
  put(
    root,
    'etc/passwd',
    'root:x:0:0::/:/bin/sh\nlineside:x:990:991::/:/bin/false\nlineside-hub:x:989:988::/:/bin/false\n',
  );
  put(root, 'etc/group', 'dialout:x:20:\nlineside:x:991:\nadm:x:4:lineside\n');
  const owner = `owner ${process.getuid?.()}`;
  assert.match(
    await said(checkPermissions, context),
    new RegExp(`failed: the service \\(user 990\\) may not write in data\\.dir \\(${owner}`),
  );
  // One that runs as another user.
  put(root, 'sys/fs/cgroup/system.slice/lineside.service/cgroup.procs', '77\n');
  put(root, 'proc/77/status', 'Name:\tnode\nUid:\t1234\t1234\t1234\t1234\nGid:\t5\t5\t5\t5\nGroups:\t20 \n');
  assert.match(await said(checkPermissions, context), /failed: the service \(user 1234\) may not write in data\.dir/);
});

it('a fresh box has no identity, which is no failure until it is on the network', async (t) => {
  const tls = '[tls]\ncert_file = "/nowhere/server.crt"\nkey_file = "credential:tls.key"\n';
  const fresh = await box(t, tls);
  assert.match(await said(checkCertificates, fresh.context), /^skipped: tls\.cert_file names no file yet/);
  assert.doesNotMatch(await said(checkPermissions, fresh.context), /failed: the file of tls/);
  const exposed = await box(t, `[grpc]\nlisten = ["0.0.0.0:50051", "unix:grpc.sock"]\n${tls}`);
  assert.match(await said(checkCertificates, exposed.context), /^failed: the file of tls\.cert_file cannot be read/);
  assert.match(exposed.context.configFile.faults.map(({ path }) => path).join(' '), /grpc\.listen/);
});
