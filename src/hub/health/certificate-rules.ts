/** Certificates that end, as the device's own alerts: a rule table. systemd/monitoring/prometheus-rules.yml says the same. Pure. */
import type { Rule } from '../../shared/base/alerts.ts';
import type { CertificateEnd } from './face.ts';

const DAY_S = 86_400;
/** Time to make a new one and to visit the box. */
const soonDays = 30;

/** Seconds that each is still valid for; negative: it has ended. */
export interface CertificatesLeft {
  readonly left: readonly { readonly key: CertificateEnd['key']; readonly seconds: number }[];
}

export const certificateRules: readonly Rule<CertificatesLeft>[] = [
  {
    name: 'CertificateExpiresSoon',
    severity: 'warning',
    value: (all) => soon(all).length,
    summary: (all) => `certificates end within ${soonDays} days: ${soon(all).map(worded).join(', ')}`,
  },
  {
    name: 'CertificateExpired',
    severity: 'critical',
    value: (all) => ended(all).length,
    summary: (all) => `certificates have ended: ${ended(all).map(worded).join(', ')}`,
  },
];

const soon = ({ left }: CertificatesLeft) => left.filter(({ seconds }) => seconds > 0 && seconds < soonDays * DAY_S);
const ended = ({ left }: CertificatesLeft) => left.filter(({ seconds }) => seconds <= 0);

function worded({ key, seconds }: CertificatesLeft['left'][number]): string {
  const days = Math.floor(Math.abs(seconds) / DAY_S);
  return seconds > 0 ? `${key} in ${days} days` : `${key} ${days} days ago`;
}
