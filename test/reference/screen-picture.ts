/** docs/images/box-screen.svg: the screen of a box after its first start, with what the box writes there and example values. */
import { issueText } from '../../src/appliance/setup/card-writes.ts';
import type { Page } from './page.ts';

const identity = {
  deviceId: 'lineside-9f3c1e7ab2d45608',
  caFingerprint: '9B:EE:BF:51:07:C2:3A:8D:64:F0:1B:7E:92:45:D8:0C:33:A6:5F:E1:78:2D:C9:04:BB:16:6E:F3:90:4A:87:D5',
  serverFingerprint: '',
  createdAt: '',
};
const claim = `lsd_${'EXAMPLE'.repeat(6)}E`;

const LINE_HEIGHT = 20;
const CHARACTER_WIDTH = 8.5;
const MARGIN = 16;

export function screenPicture(): Page {
  const shown = issueText({ hostname: 'lineside-1a2b3c', identity, claim }).replace('@ADDRESSES@', '192.168.7.20/24');
  const lines = [
    ...shown.trimEnd().split('\n'),
    '',
    '  lineside       active: no port open, log 0 B',
    '  lineside-hub   active: outbox 0 waiting, no broker configured',
  ];
  const width = Math.ceil(Math.max(...lines.map((line) => line.length)) * CHARACTER_WIDTH) + 2 * MARGIN;
  const height = lines.length * LINE_HEIGHT + 2 * MARGIN;
  const title =
    'The screen of the box: name, device id, address, fingerprint, claim token, and the state of both services';
  const text = lines.map(
    (line, i) => `<text x="${MARGIN}" y="${MARGIN + (i + 1) * LINE_HEIGHT - 6}" xml:space="preserve">${line}</text>`,
  );
  return {
    text: [
      `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
      `<title>${title}</title>`,
      '<style>text{font:14px monospace;fill:#e6e6e6}</style>',
      `<rect width="${width}" height="${height}" fill="#101418"/>`,
      ...text,
      '</svg>',
      '',
    ].join('\n'),
    holes: [],
  };
}
