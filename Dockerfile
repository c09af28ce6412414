# docker build -t backlog .      then see docs/operating.md
FROM golang:1.26 AS build
WORKDIR /src
COPY . .
RUN make licences && mkdir -p bin/state

# The program alone: no shell, no library. Handlers that are programs are added with
# what they need; sql, http, redis and amqp need nothing. No init is needed either: the
# program reaps what handlers leave behind.
FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /src/bin/backlog /usr/bin/backlog
COPY --from=build /src/bin/THIRD_PARTY_LICENSES /usr/share/doc/backlog/
COPY --from=build --chown=65532:65532 /src/bin/state /var/lib/backlog
ENV HOME=/var/lib/backlog STATE_DIRECTORY=/var/lib/backlog BACKLOG_CONFIG=/etc/backlog/schedule.yaml
USER 65532:65532
WORKDIR /var/lib/backlog
VOLUME /var/lib/backlog
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/bin/backlog"]
CMD ["run"]
