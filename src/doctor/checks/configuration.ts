/** Checks of the configuration and of the files that it names: the file itself, tokens, webhooks' settings. */
import type { Fault } from '../../shared/config/values.ts';
import { type Finding, failed, needsRoot, ok, orFine, skipped, warning } from '../check.ts';
import {
  type Check,
  type ConfigFile,
  type ConfiguredContext,
  configured,
  isOnNetwork,
  readNamedFile,
  type Tokens,
} from '../check-context.ts';
import { Redactor } from '../redactor.ts';

const redactor = new Redactor();

const faultsShown = 20;

export const configurationCheck: Check = {
  name: 'configuration',
  title: 'configuration',
  run: async ({ configFile }) => judgeConfiguration(configFile),
};

export function judgeConfiguration({ file, kind, trouble, faults, settings }: ConfigFile): Finding[] {
  // A word that names no file may be anything that was typed in its place.
  const name = kind === 'missing' ? 'the named configuration file' : redactor.text(file);
  const why = redactor.text(trouble);
  const set = [...settings.values()].filter(({ source }) => source !== 'default').length;
  switch (kind) {
    case 'denied':
      return [skipped(`${name} cannot be read by this user`, 'Run it as root, or as a member of group lineside.')];
    case 'missing':
    case 'odd':
      return [failed(`${name}: ${why}`, 'Name the configuration by --config FILE.')];
    case 'unparsable':
      return [failed(`${name} is no TOML: ${why}`, 'Correct it; "lineside config check" says when it is sound.')];
    case 'read':
    case 'defaults':
      return orFine(
        faults
          .slice(0, faultsShown)
          .map((fault) => failed(shownFault(fault), 'Correct this key; "lineside config check" lists every fault.')),
        kind === 'defaults' ? `no ${name}: defaults and environment` : `${name}: ${set} keys set, no fault`,
      );
  }
}

/** What was written is not said where it may be a secret: behind a key that names a file, or that is none. */
export function shownFault({ path, message }: Fault): string {
  const isFree = /_file$|username|bootstrap|collector|^LINESIDE_/.test(path) || /no such (?:key|section)/.test(message);
  const bare = message
    .replace('"credential:NAME"', 'a credential')
    .replace(/,? not ["'].*$/s, '')
    .replace(/^["'].*["']:? ?/s, '');
  const said = isFree ? bare : message;
  return `${redactor.text(path)} ${redactor.text(said)}`;
}

export const tokensCheck: Check = {
  name: 'tokens',
  title: 'tokens',
  run: async ({ tokens, config }) => judgeTokens(tokens, isOnNetwork(config)),
};

export function judgeTokens({ kind, what, tokens }: Tokens, isExposed: boolean): Finding[] {
  if (kind === 'denied') return [needsRoot('the tokens file')];
  if (kind === 'odd')
    return [failed(`the tokens file cannot be read: ${what}`, 'Let auth.tokens_file name a plain file.')];
  if (kind === 'damaged')
    return [
      failed(
        `the tokens file is damaged (${what}): no client is let in from the network`,
        'Restore it from a backup, or remove it and add the tokens again.',
      ),
    ];
  // No colon behind "tokens": what follows one is taken out of every finding.
  if (tokens.length > 0) return [ok(`${tokens.length} stored (${byRole(tokens)})`)];
  return isExposed
    ? [warning('no token stored, and the service is on the network', 'Add one: lineside token add NAME --role ROLE.')]
    : [ok('no token stored')];
}

function byRole(tokens: Tokens['tokens']): string {
  const counts = new Map<string, number>();
  for (const role of tokens.flatMap(({ roles }) => roles)) counts.set(role, (counts.get(role) ?? 0) + 1);
  return [...counts].map(([role, count]) => `${count} ${role}`).join(', ');
}

/** Wider than any site's own network: the guard against calls inwards would be off. */
const widestPrefix = { v4: 8, v6: 16 } as const;

export const webhooksCheck: Check = { name: 'webhooks', title: 'webhooks', run: configured(checkWebhooks) };

async function checkWebhooks({ config }: ConfiguredContext): Promise<Finding[]> {
  const { allowCidrs, allowPorts, caFile } = config.webhooks;
  const wide = allowCidrs.filter((range) => {
    const prefix = Number(range.split('/')[1] ?? 128);
    return prefix < (range.includes(':') ? widestPrefix.v6 : widestPrefix.v4);
  });
  const findings = wide.map((range) =>
    warning(
      `webhooks.allow_cidrs has ${range}: subscribers nearly anywhere inside may be called`,
      "Name the site's own networks, such as 192.168.7.0/24.",
    ),
  );
  if (allowPorts.includes(80))
    findings.push(warning('webhooks.allow_ports has 80', 'Webhooks are https; port 80 is not needed.'));
  const read = caFile === '' ? undefined : await readNamedFile('webhooks.ca_file', caFile);
  if (read !== undefined && !Buffer.isBuffer(read)) findings.push(read);
  const open = allowCidrs.length === 0 ? 'public addresses alone' : `public addresses and ${allowCidrs.join(', ')}`;
  return orFine(findings, `${open}, ports ${allowPorts.join(', ') || 'none'}`);
}
