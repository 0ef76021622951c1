typedef int fedclient_empty;
