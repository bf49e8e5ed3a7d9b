/** proto/webhook-delivery.schema.json: the body of a delivery, from the shape in the OpenAPI document. */
import { components } from '../../src/hub/http/schemas/answers.ts';
import type { Page } from './page.ts';

export function deliverySchemaPage(): Page {
  const schema = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    $id: 'urn:lineside:webhook-delivery:1',
    title: 'webhook delivery',
    ...components.WebhookPayload,
  };
  return { text: `${JSON.stringify(schema, null, 2)}\n`, holes: [] };
}
