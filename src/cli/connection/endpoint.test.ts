import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CliFailure, exitStatus } from '../failure.ts';
import { chosenEndpoint, type Face, hubFace, lineFace, type Profile, parseHost, sourceOf } from './endpoint.ts';

const isUsage = (error: unknown): boolean => error instanceof CliFailure && error.status === exitStatus.usage;

type Options = Parameters<typeof chosenEndpoint>[0];

function endpointOf(options: Options, env: Record<string, string>, face: Face, usual?: Profile) {
  const find = (name: string | undefined): Profile | undefined => (name === 'p' ? profile : usual);
  return chosenEndpoint(options, sourceOf(options, env, face, find), face);
}
const profile: Profile = { host: 'press', fingerprint: 'ab'.repeat(32), tokenFile: 'pt', httpPort: 99 };

function shown(found: ReturnType<typeof chosenEndpoint>): string | undefined {
  if (found === undefined || found.kind === 'unix') return found && `unix ${found.path}`;
  const token = found.tokenFile === undefined ? '' : ` token ${found.tokenFile}`;
  return `${found.tls === undefined ? 'plain' : 'tls'} ${found.host} ${found.port}${token}`;
}

describe('the address of the service', () => {
  const cases: readonly [Options, Record<string, string>, string | undefined, Face?, Profile?][] = [
    [
      { profile: 'p' },
      { LINESIDE_HOST: 'x', LINESIDE_TOKEN_FILE: 't', LINESIDE_SOCKET: '/b' },
      'tls press 50051 token pt',
    ],
    [{ profile: 'p', host: '127.0.0.1' }, {}, 'tls 127.0.0.1 50051 token pt'],
    [{ profile: 'p', tokenFile: 'own' }, {}, 'tls press 50051 token own'],
    [{ profile: 'p', plaintext: true }, {}, 'plain press 50051'],
    [{}, { LINESIDE_PROFILE: 'p', LINESIDE_TOKEN_FILE: 't' }, 'tls press 50051 token pt'],
    [{ host: 'box' }, { LINESIDE_PROFILE: 'p' }, 'tls box 50051'],
    [{ config: 'f' }, { LINESIDE_PROFILE: 'p' }, undefined],
    [{}, {}, undefined],
    [{ socket: '/a' }, { LINESIDE_HOST: 'x' }, 'unix /a'],
    [{}, { LINESIDE_SOCKET: '/b' }, 'unix /b'],
    [{ config: 'f' }, { LINESIDE_SOCKET: '/b', LINESIDE_HOST: 'x' }, undefined],
    [{}, { LINESIDE_HOST: 'box:1', LINESIDE_SOCKET: '' }, 'tls box 1'],
    [{ host: 'box' }, { LINESIDE_SOCKET: '/b' }, 'tls box 50051'],
    [{ host: '127.0.0.1' }, {}, 'plain 127.0.0.1 50051'],
    [{ host: '[::1]:7', tls: true }, {}, 'tls ::1 7'],
    [{ host: 'localhost', ca: 'ca.pem' }, {}, 'tls localhost 50051'],
    [{ host: 'box', plaintext: true }, { LINESIDE_TOKEN_FILE: 't' }, 'plain box 50051'],
    [{ host: 'box', tokenFile: 't' }, {}, 'tls box 50051 token t'],
    [{ host: 'box' }, { LINESIDE_TOKEN_FILE: 't' }, 'tls box 50051 token t'],
    [{ host: '127.0.0.1', fingerprint: 'ab'.repeat(32) }, {}, 'tls 127.0.0.1 50051'],
    [{ host: '127.0.0.1' }, { LINESIDE_FINGERPRINT: 'ab'.repeat(32) }, 'plain 127.0.0.1 50051'],
    // The socket of one interface means this machine for both: the default profile is not asked.
    [{}, { LINESIDE_HTTP_SOCKET: '/h' }, undefined, lineFace, profile],
    [{}, { LINESIDE_HTTP_SOCKET: '/hub' }, 'unix /hub', hubFace],
    [{}, {}, 'tls press 99 token pt', hubFace, profile],
    // The port in LINESIDE_HOST is the line's.
    [{}, { LINESIDE_HOST: '127.0.0.1:50052', LINESIDE_SOCKET: '/line' }, 'plain 127.0.0.1 8080', hubFace],
    [{ host: 'box' }, {}, 'tls box 8443', hubFace],
    [{}, { LINESIDE_HOST: 'box' }, 'tls box 8443', hubFace],
    [{ host: 'box:9' }, {}, 'tls box 9', hubFace],
    [{}, { LINESIDE_HOST: 'box:9' }, 'tls box 8443', hubFace],
    [{ host: '[2001:db8::1]' }, {}, 'tls 2001:db8::1 8443', hubFace],
    [{}, { LINESIDE_HOST: '[2001:db8::1]' }, 'tls 2001:db8::1 8443', hubFace],
  ];
  for (const [options, env, expected, face = lineFace, usual] of cases) {
    it(`${JSON.stringify(options)} with ${JSON.stringify(env)} for ${face.unit}`, () => {
      assert.equal(shown(endpointOf(options, env, face, usual)), expected);
    });
  }

  it('refuses what contradicts itself or would show a token', () => {
    const refused: readonly [Options, Record<string, string>?, Face?][] = [
      [{ socket: '/a', host: 'b' }],
      [{ host: 'box', plaintext: true, tls: true }],
      [{ host: 'box', plaintext: true, tokenFile: 't' }],
      [{ host: 'box', cert: 'c' }],
      [{ profile: 'p', socket: '/a' }],
      [{ profile: 'p', config: 'f' }],
      [{ profile: 'p', cert: 'c' }],
      [{ tokenFile: 't' }],
      [{ host: 'a b' }],
      [{ host: 'box:0' }],
      [{ host: 'box:70000' }],
      [{}, { LINESIDE_HOST: 'a', LINESIDE_SOCKET: '/b' }],
      [{}, { LINESIDE_HOST: 'a', LINESIDE_PROFILE: 'p' }],
      [{}, { LINESIDE_HOST: 'a', LINESIDE_HTTP_SOCKET: '/b' }, hubFace],
    ];
    for (const [options, env = {}, face = lineFace] of refused)
      assert.throws(() => endpointOf(options, env, face), isUsage, JSON.stringify([options, env]));
    assert.deepEqual(parseHost('fe80::1', 50_051), { host: 'fe80::1', port: 50_051 });
  });
});
