/** webhook: subscribers that get changes by HTTPS, and their deliveries. */
import type { Command } from 'commander';
import type { Shell } from '../shell.ts';
import { addDeliveries } from './deliveries.ts';
import { addSubscriptions } from './subscriptions.ts';
import { addPing } from './webhook-ping-command.ts';

export function addWebhook(program: Command, shell: Shell): void {
  const command = program
    .command('webhook')
    .description('subscriptions that get changes by HTTPS, and their deliveries: show, send again')
    .addHelpText(
      'after',
      '\nExamples:\n  lineside webhook ping https://mes.example/hook --secret-file mes.secret\n  lineside webhook add --name mes --url https://mes.example/hook --dictionary pumps --generate-secret\n  lineside webhook list\n  lineside webhook deliveries --state failed\n  lineside webhook delivery 41-9f86d081884c7d65\n  lineside webhook retry --subscription 3 --from 2d --reason "mes is back"\n',
    );
  command.commandsGroup('Subscriptions:');
  addSubscriptions(command, shell);
  addPing(command, shell);
  command.commandsGroup('Deliveries:');
  addDeliveries(command, shell);
}
