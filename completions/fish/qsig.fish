complete -c qsig -s s -d 'Signal: a name, with or without SIG, or a number (default SIGTERM); or suspend, resume, admin-suspend, admin-resume' -r
