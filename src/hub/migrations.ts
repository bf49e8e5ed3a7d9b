/** The versions of refdata.db: each text takes it from one to the next. Never changed once released, only added to. */

import type { Migrations } from '../shared/storage/open.ts';
import { outboxTables } from './outbox/schema.ts';
import { refdataTables, scopeHistory } from './refdata/schema.ts';
import { webhookTables } from './webhooks/schema.ts';

export const hubMigrations: Migrations = [outboxTables + refdataTables, webhookTables, scopeHistory];
