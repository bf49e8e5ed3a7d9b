/** discover: the boxes on this LAN. */
import type { Command } from 'commander';
import { CliFailure, exitStatus } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import { jsonLine } from '../output/json.ts';
import { labelled } from '../output/table.ts';
import type { Shell } from '../shell.ts';
import type { FoundBox } from './boxes.ts';
import { fingerprintText } from './fingerprint.ts';

/** Answers come within a fraction of a second; a second and a third question find who missed the first. */
const usualSeconds = 3;

export function addDiscover(program: Command, shell: Shell): void {
  const command = program
    .command('discover')
    .description('find boxes on this LAN (multicast DNS); status 5 when none answers')
    .addHelpText(
      'after',
      '\nA fingerprint found this way is a hint, since anybody on the LAN may answer: compare it with what the box itself\nshows (lineside identity show), then use it: lineside status --host ADDRESS --fingerprint SHA256.\n\nExamples:\n  lineside discover\n  lineside discover --timeout 10 --json\n',
    );
  shell.alone(command, usualSeconds, {
    what: 'cannot look for boxes',
    run: async (call) => {
      const { discover } = await import('./discover.ts');
      const boxes = await discover(call.io.clock, call.timeoutMs, call.stop);
      if (call.json) await call.out.write(boxesJson(boxes));
      else await call.out.write(boxes.map((box) => boxText(box)).join('\n'));
      if (boxes.length > 0) return exitStatus.ok;
      if (call.json) return exitStatus.nothing;
      throw new CliFailure({
        status: exitStatus.nothing,
        code: 'NO_BOX',
        why: `none answered within ${call.timeoutMs / 1000} s`,
        next: 'Check cable and Wi-Fi; firewalls and other subnets stop multicast: then name the box by --host ADDRESS.',
      });
    },
  });
}

/** Anybody on the LAN may have written it, and a terminal may show it. */
export function boxesJson(boxes: readonly FoundBox[]): string {
  const shown = boxes.map(({ httpPort, deviceId, version, fingerprint, ...box }) => ({
    ...box,
    httpPort: httpPort ?? null,
    deviceId: deviceId ?? null,
    version: version ?? null,
    fingerprint: fingerprint === undefined ? null : fingerprintText(fingerprint),
  }));
  return jsonLine({ boxes: shown });
}

/** Nothing is cut: an address or a fingerprint is to be copied. */
function boxText({ name, host, addresses, grpcPort, httpPort, deviceId, version, fingerprint }: FoundBox): string {
  const rows: readonly (readonly [string, string | undefined])[] = [
    ['  host', safeText(host)],
    ['  address', addresses.join(', ')],
    ['  gRPC port', String(grpcPort)],
    ['  HTTP port', httpPort?.toString()],
    ['  device id', deviceId],
    ['  version', version],
    ['  fingerprint (a hint)', fingerprint === undefined ? undefined : fingerprintText(fingerprint)],
  ];
  const known = rows.flatMap(([label, value]) => (value === undefined ? [] : [[label, value] as const]));
  return `${safeText(name)}\n${labelled(known, 0)}`;
}
