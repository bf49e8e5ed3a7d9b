/** Checks of the configuration and of the files that it names: the file itself, tokens, webhooks' settings. */
import type { Fault } from '../../shared/config/values.ts';
import { type Finding, failed, needsRoot, ok, skipped, warning } from '../check.ts';
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
  const name = shownName(file, kind);
  if (kind === 'denied')
    return [skipped(`${name} cannot be read by this user`, 'Run it as root, or as a member of group lineside.')];
  if (kind === 'missing' || kind === 'odd')
    return [failed(`${name}: ${redactor.text(trouble)}`, 'Name the configuration by --config FILE.')];
  if (kind === 'unparsable')
    return [
      failed(
        `${name} is no TOML: ${redactor.text(trouble)}`,
        'Correct it; "lineside config check" says when it is sound.',
      ),
    ];
  const set = [...settings.values()].filter(({ source }) => source !== 'default').length;
  if (faults.length === 0)
    return [ok(kind === 'defaults' ? `no ${name}: defaults and environment` : `${name}: ${set} keys set, no fault`)];
  return faults
    .slice(0, faultsShown)
    .map((fault) => failed(shownFault(fault), 'Correct this key; "lineside config check" lists every fault.'));
}

/** A word that is no existing file's name may be anything that was typed in its place. */
function shownName(file: string, kind: ConfigFile['kind']): string {
  return kind === 'missing' ? 'the named configuration file' : redactor.text(file);
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
  const add = 'Add one: lineside token add NAME --role ROLE.';
  switch (kind) {
    case 'denied':
      return [needsRoot('the tokens file')];
    case 'odd':
      return [failed(`the tokens file cannot be read: ${what}`, 'Let auth.tokens_file name a plain file.')];
    case 'damaged':
      return [
        failed(
          `the tokens file is damaged (${what}): no client is let in from the network`,
          'Restore it from a backup, or remove it and add the tokens again.',
        ),
      ];
    case 'missing':
    case 'read': {
      // No colon behind "tokens": what follows one is taken out of every finding.
      const said = tokens.length === 0 ? 'no token stored' : `${tokens.length} stored (${byRole(tokens)})`;
      return [tokens.length === 0 && isExposed ? warning(`${said}, and the service is on the network`, add) : ok(said)];
    }
  }
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
  const findings: Finding[] = [];
  for (const range of allowCidrs) {
    const prefix = Number(range.split('/')[1] ?? 128);
    if (prefix >= (range.includes(':') ? widestPrefix.v6 : widestPrefix.v4)) continue;
    findings.push(
      warning(
        `webhooks.allow_cidrs has ${range}: subscribers nearly anywhere inside may be called`,
        "Name the site's own networks, such as 192.168.7.0/24.",
      ),
    );
  }
  if (allowPorts.includes(80))
    findings.push(warning('webhooks.allow_ports has 80', 'Webhooks are https; port 80 is not needed.'));
  if (caFile !== '') {
    const read = await readNamedFile('webhooks.ca_file', caFile);
    if (!Buffer.isBuffer(read)) findings.push(read);
  }
  const open = allowCidrs.length === 0 ? 'public addresses alone' : `public addresses and ${allowCidrs.join(', ')}`;
  return findings.length > 0 ? findings : [ok(`${open}, ports ${allowPorts.join(', ') || 'none'}`)];
}
