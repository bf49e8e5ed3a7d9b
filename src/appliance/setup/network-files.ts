/** Files of systemd-networkd and wpa_supplicant. Their values were checked before; unchecked ones are written as hex. Pure. */
import { type Network, splitAddress, type Wifi } from './setup-file.ts';

const HEAD = '# Written by "lineside setup" from the card\'s setup.toml, which is where to change it.\n';
/** The same as in the image's file for DHCP, which applies if none of these files exists. */
const WIRED = 'Name=en* eth* usb*';
/** The cable takes precedence over Wi-Fi: networkd's default metric is 1024. */
const WIFI_METRIC = 2_048;

/** undefined: none, the image's DHCP counts. */
export function networkFiles(network: Network) {
  const isPlain = network.method === 'dhcp' && network.dns.length === 0;
  if (network.wifi !== undefined) return { wired: undefined, wireless: profile('Name=wlan*', network, WIFI_METRIC) };
  return { wired: isPlain ? undefined : profile(WIRED, network), wireless: undefined };
}

function profile(match: string, { method, address, gateway, dns }: Network, metric?: number): string {
  const lines = ['[Match]', match, '', '[Network]', ...dns.map((server) => `DNS=${server}`)];
  if (method === 'dhcp') {
    lines.push('DHCP=yes', 'LinkLocalAddressing=yes', '', '[DHCPv4]', 'UseDomains=yes', 'SendHostname=yes');
    if (metric !== undefined) lines.push(`RouteMetric=${metric}`);
  } else {
    lines.push('DHCP=no', 'LinkLocalAddressing=ipv6', '', '[Address]', `Address=${address}`);
    if (gateway !== '') lines.push('', '[Route]', `Gateway=${gateway}`);
    if (gateway !== '' && metric !== undefined) lines.push(`Metric=${metric}`);
  }
  return `${HEAD}${lines.join('\n')}\n`;
}

/** The address that is known beforehand, which the certificate may name. */
export function fixedAddresses({ method, address }: Network): string[] {
  const split = method === 'static' ? splitAddress(address) : undefined;
  return split === undefined ? [] : [split.address];
}

/** `psk` in hex, or '' where the network is open. The name is hex too, so that none can be anything but a name. */
export function wpaFile({ ssid, psk, country }: Wifi): string {
  const access = psk === '' ? ['key_mgmt=NONE'] : ['key_mgmt=WPA-PSK', `psk=${psk}`];
  const lines = ['ctrl_interface=DIR=/run/wpa_supplicant', 'update_config=0', `country=${country}`, '', 'network={'];
  lines.push(`  ssid=${hexOf(ssid)}`, '  scan_ssid=1', ...access.map((line) => `  ${line}`), '}');
  return `${HEAD}${lines.join('\n')}\n`;
}

/** The key in a file that wpaFile made for this network; undefined: it is for another one, or open. */
export function storedPsk(file: string | undefined, ssid: string): string | undefined {
  if (file === undefined || !file.includes(`\n  ssid=${hexOf(ssid)}\n`)) return undefined;
  return /^ {2}psk=([0-9a-f]{64})$/m.exec(file)?.[1];
}

function hexOf(text: string): string {
  return Buffer.from(text).toString('hex');
}

export function timeServersFile(servers: readonly string[]): string | undefined {
  return servers.length === 0 ? undefined : `${HEAD}[Time]\nNTP=${servers.join(' ')}\n`;
}
