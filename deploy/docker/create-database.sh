#!/bin/sh
# Run once by the PostgreSQL image, when its volume is new: a role for the coordinators, which is no superuser, and a
# database that belongs to it. Coordinators make the partitions of each month themselves, so the role owns the tables.
set -eu
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 <<'SQL'
\set password `cat "${DATABASE_PASSWORD_FILE:-/run/secrets/database-password}"`
CREATE ROLE tenure LOGIN PASSWORD :'password';
CREATE DATABASE tenure OWNER tenure;
SQL
