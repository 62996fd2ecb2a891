complete -c qacct -s u -d 'Jobs of these users' -r
complete -c qacct -s A -d 'Jobs charged to these accounts; "" for jobs without an account' -r
complete -c qacct -s P -d 'Jobs of these projects' -r
complete -c qacct -s q -d 'Jobs in these queues' -r
complete -c qacct -s b -d 'Jobs that ended at or after this time: 7d, today, 2026-11, 2026-11-20, or a date as for qsub -a' -r
complete -c qacct -s e -d 'Jobs that ended before the end of this period; the same values as for -b' -r
complete -c qacct -l by -d 'Group the sums by these keys, in this order' -r -f -a "user\t'Owner of the job'
account\t'Account of the job (`qsub -A`)'
project\t'Project of the job (`qsub -P`)'
queue\t'Queue of the job'
qos\t'Quality of service of the job'
month\t'Month in which the attempt ended'
day\t'Day on which the attempt ended'"
complete -c qacct -s j -d 'Print all records of these jobs, one for each attempt' -r
complete -c qacct -s F -d 'Output format: csv or json; times in seconds since 1970' -r -f -a "text\t'Tables'
csv\t'Comma-separated values with a header line'
json\t'One JSON document'"
complete -c qacct -l list -d 'Print each attempt on a line instead of sums'
