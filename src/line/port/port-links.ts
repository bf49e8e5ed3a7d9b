/** Stable names of ports: the links that udev (or the Pi's firmware) leaves under /dev, by the node they lead to. */
import { readdir, realpath } from 'node:fs/promises';
import { join } from 'node:path';

const linkDirectories = ['serial/by-id', 'serial/by-path'];
const singleLinks = ['serial0', 'serial1'];

/** The directories whose changes may mean a new link. */
export function linkDirectoriesOf(devRoot: string): readonly string[] {
  return [devRoot, join(devRoot, 'serial'), ...linkDirectories.map((directory) => join(devRoot, directory))];
}

export async function portLinks(devRoot: string): Promise<ReadonlyMap<string, readonly string[]>> {
  const links = (await Promise.all(linkDirectories.map((directory) => entries(join(devRoot, directory))))).flat();
  links.push(...singleLinks.map((name) => join(devRoot, name)));
  const byNode = new Map<string, string[]>();
  await Promise.all(
    links.map(async (link) => {
      const node = await realpath(link).catch(() => undefined);
      if (node === undefined || node === link) return;
      byNode.set(node, [...(byNode.get(node) ?? []), link]);
    }),
  );
  for (const list of byNode.values()) list.sort();
  return byNode;
}

async function entries(directory: string): Promise<string[]> {
  return (await readdir(directory).catch(() => [])).map((name) => join(directory, name));
}
