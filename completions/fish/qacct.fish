complete -c qacct -s u -d 'Jobs of these users' -r
complete -c qacct -s A -d 'Jobs charged to these accounts; "" for jobs without an account' -r
complete -c qacct -s P -d 'Jobs of these projects' -r
complete -c qacct -s q -d 'Jobs in these queues' -r
complete -c qacct -s b -d 'Attempts that ended at or after this time: 7d (7 days ago), today or 2026-11-20 (from midnight on), 2026-11 (from the first day on), or [[[[CC]YY]MM]DD]hhmm[.SS]: hhmm alone is a time of today, and a date without a year or a month is the latest such date in the past' -r
complete -c qacct -s e -d 'Attempts that ended before this time, or before the end of this day or month; values as for -b' -r
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
