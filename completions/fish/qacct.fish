complete -c qacct -s u -d 'Jobs of these users' -r
complete -c qacct -s A -d 'Jobs of these accounts; "" for jobs of none' -r
complete -c qacct -s P -d 'Jobs of these projects' -r
complete -c qacct -s q -d 'Jobs in these queues' -r
complete -c qacct -s b -d 'What was over then or later: 7d, today, 2026-11, 2026-11-20, or a date as qsub -a has it' -r
complete -c qacct -s e -d 'What was over before the end of this' -r
complete -c qacct -l by -d 'What to add up by, in this order' -r -f -a "user\t'The owner'
account\t'`-A`'
project\t'`-P`'
queue\t'The queue'
qos\t'The quality of service'
month\t'The month of the end'
day\t'The day of the end'"
complete -c qacct -s j -d 'All that is known of these jobs, attempt by attempt' -r
complete -c qacct -s F -d 'The format: csv or json, with times in seconds and moments since 1970' -r -f -a "text\t'For people'
csv\t'Comma-separated values, with their names in the first line'
json\t'One document'"
complete -c qacct -l list -d 'Each attempt on a line, instead of sums'
