/** How a block's body lies in the file. Serial traffic is text or polls more often than not: deflate saves card wear. */
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { messageOf } from '../../shared/base/errors.ts';
import { DamagedError } from './damage.ts';

const plain = 0;
const deflated = 1;

/** Smaller bodies fit beside others on a page: nothing to save. */
const worthwhileBytes = 256;
/** Keeps what is compressed only when it saves a tenth. */
const worthwhileRatio = 0.9;
/** Above any block; a damaged one must not fill the memory. */
const maxBodyBytes = 16 * 1024 * 1024;

export function encode(body: Uint8Array, compress: boolean): { codec: number; body: Uint8Array } {
  if (!compress || body.length < worthwhileBytes) return { codec: plain, body };
  const smaller = deflateRawSync(body, { level: 1 });
  return smaller.length <= body.length * worthwhileRatio ? { codec: deflated, body: smaller } : { codec: plain, body };
}

export function decode(codec: number, body: Buffer): Buffer {
  if (codec === plain) return body;
  try {
    return inflateRawSync(body, { maxOutputLength: maxBodyBytes });
  } catch (error) {
    throw new DamagedError(`a block cannot be unpacked: ${messageOf(error)}`);
  }
}
