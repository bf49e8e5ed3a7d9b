/** What the page offers to whom: the interface decides in any case; the page then offers nothing that is refused. Pure. */

export const sections = ['line', 'health', 'delivery', 'data', 'box'] as const;
export type Section = (typeof sections)[number];

const lineRoles = ['viewer', 'operator', 'admin'];
const mayOpen: Readonly<Record<Section, readonly string[]>> = {
  line: lineRoles,
  health: lineRoles,
  delivery: ['admin'],
  data: ['reader', 'writer', 'admin'],
  box: lineRoles,
};

export interface Rights {
  readonly sections: readonly Section[];
  readonly operates: boolean;
  readonly writes: boolean;
}

export function rightsOf(roles: readonly string[]): Rights {
  const any = (wanted: readonly string[]): boolean => roles.some((role) => wanted.includes(role));
  return {
    sections: sections.filter((section) => any(mayOpen[section])),
    operates: any(['operator']),
    writes: any(['writer', 'admin']),
  };
}
