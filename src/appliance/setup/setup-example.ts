/** The commented setup.toml of a new card: every key, made from the table that judges it. Pure. */
import { type SetupKey, setupKeys, tokenKeys } from './setup-keys.ts';

const HEAD = [
  '# lineside: what this box is to be. Edit it with any text editor (UTF-8), put the card into the box and start it.',
  '# Remove the # before a key that you change. All of it is optional: without a change the box has DHCP and no SSH.',
  '# Faults are listed in setup-errors.txt on this card. A change on the card counts from the next start; a file that did',
  '# not change is not applied again. Secrets move onto the box, and "*" stands in their place: keep what the box has.',
];

const intros: Readonly<Record<string, readonly string[]>> = {
  box: [],
  network: ['# The wired network; with [network.wifi] the wireless one, and the wire keeps DHCP.'],
  'network.wifi': ['# Remove the # before this line, too, for Wi-Fi (wlan0, 2.4 GHz or as the board has it).'],
  ssh: [],
};

export function setupExample(): string {
  const lines = [...HEAD];
  for (const [section, intro] of Object.entries(intros)) {
    lines.push('', ...intro, section === 'network.wifi' ? `#[${section}]` : `[${section}]`);
    for (const entry of setupKeys.filter(({ key }) => sectionOf(key.path) === section)) {
      lines.push(...describe(entry, entry.key.path.slice(section.length + 1)));
    }
  }
  lines.push('', '# Tokens for access from the network, as many of these sections as you like.', '#[[token]]');
  for (const entry of tokenKeys) lines.push(...describe(entry, entry.key.path));
  lines.push(
    '',
    '# Passwords that lineside.toml names as "credential:NAME"; empty ("") removes one. They move onto the box.',
    '#[secrets]',
    '#kafka.password = "..."',
  );
  return `${lines.join('\n')}\n`;
}

function sectionOf(path: string): string {
  return path.slice(0, path.lastIndexOf('.'));
}

function describe({ key, example }: SetupKey, name: string): string[] {
  return [`# ${key.schema.description}`, `#${name} = ${example}`];
}
