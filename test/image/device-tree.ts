/** A compiled device tree (Devicetree Specification, chapter 5), and what a device in it needs. Pure. */

const [BEGIN_NODE, END_NODE, PROPERTY, END] = [1, 2, 3, 9];

export interface TreeNode {
  readonly path: string;
  readonly parent: TreeNode | undefined;
  readonly properties: ReadonlyMap<string, Buffer>;
}

/** Properties that point to other nodes, by the property of the other node that says how many cells follow its handle. */
const POINTERS: readonly (readonly [RegExp, string | undefined])[] = [
  [/^clocks$/, '#clock-cells'],
  [/^dmas$/, '#dma-cells'],
  [/^power-domains$/, '#power-domain-cells'],
  [/^resets$/, '#reset-cells'],
  [/^mboxes$/, '#mbox-cells'],
  [/^phys$/, '#phy-cells'],
  [/(?:^|-)gpios?$/, '#gpio-cells'],
  [/-supply$|^pinctrl-0$|^mmc-pwrseq$|^phy-handle$|^interrupt-parent$|^firmware$/, undefined],
];

export class DeviceTree {
  readonly nodes: readonly TreeNode[];
  readonly #byPath: ReadonlyMap<string, TreeNode>;
  readonly #byHandle: ReadonlyMap<number, TreeNode>;

  constructor(bytes: Buffer) {
    this.nodes = [...nodesOf(bytes)];
    this.#byPath = new Map(this.nodes.map((node) => [node.path, node]));
    this.#byHandle = new Map(this.nodes.flatMap((node) => cells(node, 'phandle').map((handle) => [handle, node])));
  }

  at(path: string): TreeNode | undefined {
    return this.#byPath.get(path);
  }

  /** Enabled, as all that it is a part of, and compatible with it. */
  enabled(compatible: RegExp): TreeNode[] {
    return this.nodes.filter(
      (node) => isEnabled(node) && strings(node, 'compatible').some((one) => compatible.test(one)),
    );
  }

  /** The node, what it is a part of, and the enabled nodes that these point to: the kernel waits for no other. */
  needs(node: TreeNode, found = new Set<TreeNode>()): Set<TreeNode> {
    if (found.has(node)) return found;
    found.add(node);
    for (const other of this.#pointedTo(node)) if (isEnabled(other)) this.needs(other, found);
    return node.parent === undefined ? found : this.needs(node.parent, found);
  }

  *#pointedTo(node: TreeNode): Generator<TreeNode> {
    for (const name of node.properties.keys()) {
      const pointer = POINTERS.find(([pattern]) => pattern.test(name));
      if (pointer === undefined) continue;
      const values = cells(node, name);
      while (values.length > 0) {
        const other = this.#byHandle.get(values.shift() ?? 0);
        if (other === undefined) throw new Error(`${node.path}: ${name} points to nothing`);
        yield other;
        values.splice(0, pointer[1] === undefined ? 0 : (cells(other, pointer[1])[0] ?? 0));
      }
    }
  }
}

export function isEnabled(node: TreeNode | undefined): boolean {
  if (node === undefined) return true;
  const [status = 'okay'] = strings(node, 'status');
  return (status === 'okay' || status === 'ok') && isEnabled(node.parent);
}

export function isBehindPci({ parent }: TreeNode): boolean {
  return parent !== undefined && (strings(parent, 'device_type')[0] === 'pci' || isBehindPci(parent));
}

export function strings(node: TreeNode | undefined, name: string): string[] {
  const value = node?.properties.get(name);
  return value === undefined ? [] : value.toString('latin1').split('\0').slice(0, -1);
}

export function cells(node: TreeNode | undefined, name: string): number[] {
  const value = node?.properties.get(name) ?? Buffer.alloc(0);
  return Array.from({ length: value.length / 4 }, (_, i) => value.readUInt32BE(4 * i));
}

function* nodesOf(bytes: Buffer): Generator<TreeNode> {
  const [structure, names] = [bytes.readUInt32BE(8), bytes.readUInt32BE(12)];
  const text = (at: number): string => bytes.toString('latin1', at, bytes.indexOf(0, at));
  const aligned = (length: number): number => 4 * Math.ceil(length / 4);
  const open: (TreeNode & { readonly properties: Map<string, Buffer> })[] = [];
  for (let at = structure; ; ) {
    const token = bytes.readUInt32BE(at);
    at += 4;
    if (token === BEGIN_NODE) {
      const name = text(at);
      const parent = open.at(-1);
      const path = parent === undefined ? '/' : `${parent.path === '/' ? '' : parent.path}/${name}`;
      open.push({ path, parent, properties: new Map() });
      at += aligned(name.length + 1);
    } else if (token === PROPERTY) {
      const [length, name] = [bytes.readUInt32BE(at), text(names + bytes.readUInt32BE(at + 4))];
      open.at(-1)?.properties.set(name, bytes.subarray(at + 8, at + 8 + length));
      at += 8 + aligned(length);
    } else if (token === END_NODE) {
      const node = open.pop();
      if (node !== undefined) yield node;
    } else if (token === END) return;
  }
}
