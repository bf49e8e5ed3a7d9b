/** The promise of every TLS server of the product: TLS_PROFILE. Its certificate has an elliptic key. */
import assert from 'node:assert/strict';
import { type ConnectionOptions, connect } from 'node:tls';

/** `port`: on 127.0.0.1; `protocol`: of its ALPN. */
export async function offersIntermediateSuitesOnly(port: number, protocol: 'h2' | 'http/1.1'): Promise<void> {
  const suite = (options: ConnectionOptions): Promise<string> =>
    new Promise((resolve) => {
      const fixed = { host: '127.0.0.1', port, rejectUnauthorized: false, ALPNProtocols: [protocol] };
      const socket = connect({ ...fixed, ...options }, () => {
        resolve(socket.getCipher().standardName);
        socket.destroy();
      });
      socket.on('error', () => resolve('refused'));
    });
  const old = { maxVersion: 'TLSv1.2' } as const;
  assert.equal(await suite({ ...old, ciphers: 'ECDHE-ECDSA-AES128-SHA256' }), 'refused');
  assert.equal(await suite({ ...old, ciphers: 'ECDHE-ECDSA-AES256-SHA' }), 'refused');
  assert.equal(await suite({ minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'ALL@SECLEVEL=0' }), 'refused');
  const good = 'ECDHE-ECDSA-AES128-GCM-SHA256';
  assert.equal(await suite({ ...old, ciphers: good }), 'TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256');
  assert.match(await suite({}), /^TLS_AES_|^TLS_CHACHA20_/);
}
