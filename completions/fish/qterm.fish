complete -c qterm -s t -d 'How to treat running jobs. quick: they continue, and schedd exits at once. delay: they are requeued, and schedd exits when the jobs that are not rerunnable have ended. immediate: they are requeued, jobs that are not rerunnable are deleted, and schedd exits at once' -r
complete -c qterm -s m -d 'Shut down the nodeds too; running jobs continue'
complete -c qterm -s s -d 'Accepted for compatibility: the scheduler always stops with schedd'
complete -c qterm -s f -d 'Accepted for compatibility: there is no secondary server'
complete -c qterm -s i -d 'Accepted for compatibility; does nothing: there is no secondary server'
