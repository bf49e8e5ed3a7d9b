/** The alerts of systemd/monitoring/prometheus-rules.yml: as much of YAML as that file uses, and an error for the rest. Pure. */

export interface PrometheusRule {
  readonly alert: string;
  readonly expr: string;
  readonly for: string;
  readonly severity: string;
  readonly summary: string;
  readonly description: string;
}

const fields = ['expr', 'for', 'severity', 'summary', 'description'] as const;

export function rulesIn(yaml: string): PrometheusRule[] {
  return yaml
    .split(/^\s*- alert:\s*/m)
    .slice(1)
    .map((text) => {
      const found = (name: string): string => valueOf(text, name);
      const [expr = '', wait = '', severity = '', summary = '', description = ''] = fields.map(found);
      return { alert: text.split('\n', 1)[0]?.trim() ?? '', expr, for: wait, severity, summary, description };
    });
}

/** On its line, quoted or not, or in the deeper lines below a "|" or ">". */
function valueOf(text: string, name: string): string {
  const line = new RegExp(`^( *)${name}: *(.*)$`, 'm').exec(text);
  if (line === null) return '';
  const [whole, indent = '', value = ''] = line;
  if (!/^[|>][+-]?$/.test(value)) return unquoted(value);
  const below = text.slice(line.index + whole.length + 1).split('\n');
  const end = below.findIndex((one) => one.trim() !== '' && !one.startsWith(`${indent} `));
  return below
    .slice(0, end === -1 ? below.length : end)
    .map((one) => one.trim())
    .join(' ')
    .trim();
}

function unquoted(value: string): string {
  if (value.startsWith('"')) return JSON.parse(value) as string;
  if (value.startsWith("'")) return value.slice(1, -1).replaceAll("''", "'");
  return value;
}
