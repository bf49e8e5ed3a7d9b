/** Who may do what at a broker for tests. */
import type { Acl } from './admin.ts';
import { users } from './kafka.ts';

/** Topics that begin with this are the device's to write. */
export const TOPIC_PREFIX = 'refdata.cuod.events';

/** The device may write, create and describe below the prefix; the consumer reads the public topic, by its literal name. */
export function standardAcls(prefix = TOPIC_PREFIX): Acl[] {
  const device = { user: users.device.name, resource: 'topic', pattern: 'prefixed', name: prefix } as const;
  const consumer = {
    user: users.consumer.name,
    resource: 'topic',
    pattern: 'literal',
    name: `${prefix}.public`,
  } as const;
  return [
    ...(['write', 'create', 'describe', 'describeConfigs'] as const).map((operation) => ({ ...device, operation })),
    ...(['read', 'describe'] as const).map((operation) => ({ ...consumer, operation })),
    {
      user: users.consumer.name,
      resource: 'group',
      pattern: 'prefixed',
      name: `${users.consumer.name}.`,
      operation: 'read',
    },
  ];
}
