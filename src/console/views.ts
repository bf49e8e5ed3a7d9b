/** The views of the page: who may open which, and the address of each. Pure. */

/** The page offers nothing that is refused; the interface decides in any case. */
const sections = ['line', 'health', 'delivery', 'data', 'box', 'admin'] as const;
export type Section = (typeof sections)[number];

const lineRoles = ['viewer', 'operator', 'admin'];
const mayOpen: Readonly<Record<Section, readonly string[]>> = {
  line: lineRoles,
  health: lineRoles,
  delivery: ['admin'],
  data: ['reader', 'writer', 'admin'],
  box: lineRoles,
  admin: ['admin'],
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

/** Where in the page one is, as the part of the address after "#". */
export interface Place {
  readonly section: Section;
  /** After the section: a dictionary, and a business key. */
  readonly parts: readonly string[];
  /** What is searched for or filtered by: a link to it can be sent. */
  readonly query: Readonly<Record<string, string>>;
}

/** undefined: there is no such place. */
export function placeOf(hash: string): Place | undefined {
  const [path = '', query = ''] = hash.replace(/^#?\/?/, '').split('?');
  const [first = '', ...rest] = path.split('/');
  const section = sections.find((one) => one === first);
  if (section === undefined) return undefined;
  try {
    const parts = rest.filter((part) => part !== '').map(decodeURIComponent);
    return { section, parts, query: Object.fromEntries(new URLSearchParams(query)) };
  } catch {
    return undefined;
  }
}

export function hashOf(section: Section, ...parts: readonly string[]): string {
  return `#/${[section, ...parts.map(encodeURIComponent)].join('/')}`;
}

/** `path`: of a view, or of a request. What is '' is left out. */
export function withQuery(path: string, query: Readonly<Record<string, string>>): string {
  const given = Object.entries(query).filter(([, value]) => value !== '');
  // The box takes "+" as itself, for times with an offset.
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given).toString().replaceAll('+', '%20')}`;
}
